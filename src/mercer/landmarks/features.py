"""Features of landmarks: phi(x) = R^-T k(Z, x) with R'R = k(Z, Z).

Products phi(x)' phi(z) are the part of k(x, z) in the span of the landmarks (Williams and Seeger,
2001), and the squared norm of a function phi(x)' v is |v|^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.whitening import Whitening, whiten, whiten_with_jitter
from mercer.rows.sums import among


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """Whitened kernel values with landmarks, in double precision.

    A function f(x) = phi(x)' v = sum_j c_j k(x, z_j) has coordinates v = R c.
    """

    kernel: Kernel  # the kernel, resolved
    landmarks: Points  # all m landmarks
    points: Points  # the r landmarks that are kept
    whitening: Whitening  # which landmarks are kept, and R

    @classmethod
    def of(cls, kernel: Kernel, landmarks: Points, whitening: Whitening) -> LandmarkFeatures:
        """The features of the landmarks that a whitening keeps."""
        if not whitening.rank:  # keep one zero feature for a kernel that is zero everywhere
            whitening = Whitening(np.zeros(1, np.intp), np.ones((1, 1)))
        everything = np.array_equal(whitening.kept, np.arange(len(landmarks)))
        points = landmarks if everything else landmarks[whitening.kept].detached()
        return cls(kernel, landmarks, points, whitening)

    @classmethod
    def pivoted(
        cls, kernel: Kernel, landmarks: Points, *, tol: float | None = None
    ) -> LandmarkFeatures:
        """Leave out landmarks that the others explain up to `tol` times the largest k(z, z)."""
        return cls.of(kernel, landmarks, whiten(among(kernel, landmarks), tol=tol))

    @classmethod
    def with_jitter(cls, kernel: Kernel, landmarks: Points, some: Points) -> LandmarkFeatures:
        """Keep all landmarks, with jitter above the rounding error of the kernel values."""
        eps = float(np.finfo(kernel.gram(some, landmarks).dtype).eps)
        return cls.of(kernel, landmarks, whiten_with_jitter(among(kernel, landmarks), eps))

    @property
    def root(self) -> Array:
        """R, upper triangular, in Fortran order."""
        return self.whitening.upper

    @property
    def width(self) -> int:
        """Number r of features."""
        return self.whitening.rank

    def cross(self, points: Points) -> Array:
        """Kernel values k(x, Z) with the kept landmarks, in double precision."""
        return self.kernel(points, self.points).astype(np.float64, copy=False)

    def rows(self, points: Points) -> Array:
        """Features of points, of shape (n, r)."""
        return self.whitening.apply(self.cross(points))

    __call__ = rows

    def to_coefficients(self, coordinates: Array) -> Array:
        """The coefficients R^-1 v of the kept landmarks."""
        return self.whitening.to_coefficients(coordinates)

    def of_all_landmarks(self, coefficients: Array) -> Array:
        """Coefficients of all landmarks, of shape (..., m, t), with zeros for dropped landmarks."""
        dual = np.zeros((*coefficients.shape[:-2], len(self.landmarks), coefficients.shape[-1]))
        dual[..., self.whitening.kept, :] = coefficients
        return dual
