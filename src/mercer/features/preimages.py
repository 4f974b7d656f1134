r"""Pre-images: points with given features.

For features F(x) = k(x, Z) R^-1 over landmarks Z, the pre-image of f is the x that minimises

.. math:: \tfrac12 \lVert F(x) - f \rVert^2 ,

by L-BFGS with the kernel's gradient in its inputs. The search starts from the better of two
guesses: the landmark with the nearest features, and a ridge regression from the features of the
landmarks to the landmarks.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from mercer.arrays import Array
from mercer.exceptions import NotDifferentiableError, NumericalWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.sampling import blocks

# Number of rows whose pre-images are computed together.
_BLOCK_ROWS = 64
# Largest number of L-BFGS steps.
_MAX_ITER = 500
# Ridge of the regression from features to points, relative to the trace.
_RIDGE = 1e-6


class PreImages:
    """Computes points from their features over landmarks."""

    def __init__(self, kernel: Kernel, landmarks: Points, upper: Array, owner: str) -> None:
        self.kernel, self.owner = kernel, owner
        self.upper = np.asarray(upper, dtype=np.float64)
        self._names: list[str] | None = None
        self._backend: Any = None
        numbers = self._numbers(landmarks.data)
        self.landmarks = self._points(numbers)
        self.centre, scale = numbers.mean(axis=0), numbers.std(axis=0)
        self.scale = np.where(scale > 0, scale, 1.0)
        self._standard = (numbers - self.centre) / self.scale
        self._require_gradient()

    def __call__(self, features: Array) -> Array:
        """The pre-images of rows of features."""
        points = np.empty((len(features), len(self.centre)))
        unfinished = 0
        for span in blocks(len(features), step=_BLOCK_ROWS):
            wanted = features[span]
            start = self._start(wanted)
            result = minimize(
                self._objective,
                start.ravel(),
                args=(wanted,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": _MAX_ITER, "maxfun": 2 * _MAX_ITER, "ftol": 0, "gtol": 1e-10},
            )
            unfinished += result.status == 1
            points[span] = self.centre + self.scale * result.x.reshape(start.shape)
        if unfinished:
            warn(
                f"{self.owner}: the search for pre-images stopped after {_MAX_ITER} steps for some "
                "rows, which are the best found; check them with transform.",
                NumericalWarning,
            )
        return points

    def _objective(self, flat: Array, wanted: Array) -> tuple[float, Array]:
        """Half the squared distance of features, and its gradient."""
        standard = flat.reshape(len(wanted), -1)
        gram = self.kernel.gram(self._points(self.centre + self.scale * standard), self.landmarks)
        errors = self._whitened(gram.toarray()) - wanted
        weights = solve_triangular(self.upper, errors.T).T
        gradient = gram.input_gradient(weights) * self.scale
        # Divide by the size of the features, so that the gradient tolerance is relative.
        unit = float(np.mean(np.sum(wanted**2, axis=1))) or 1.0
        return 0.5 * float(np.sum(errors**2)) / unit, gradient.ravel() / unit

    def _start(self, wanted: Array) -> Array:
        """The better of two standardised guesses for every row."""
        known = self.upper.T  # the features of the landmarks
        system = known.T @ known
        system[np.diag_indices_from(system)] += _RIDGE * np.trace(system)
        learned = wanted @ np.linalg.solve(system, known.T @ self._standard)
        distances = np.sum(known**2, axis=1) - 2 * wanted @ known.T
        nearest = self._standard[np.argmin(distances, axis=1)]
        errors = [self._errors(guess, wanted) for guess in (learned, nearest)]
        return np.where((errors[0] < errors[1])[:, None], learned, nearest)

    def _errors(self, standard: Array, wanted: Array) -> Array:
        points = self._points(self.centre + self.scale * standard)
        features = self._whitened(self.kernel(points, self.landmarks))
        return np.asarray(np.sum((features - wanted) ** 2, axis=1))

    def _whitened(self, cross: Array) -> Array:
        return np.asarray(solve_triangular(self.upper, cross.T, trans=1).T)

    def _numbers(self, data: Any) -> Array:
        """The landmarks as a matrix; refuse other data."""
        frame = nw.from_native(data, pass_through=True, eager_only=True)
        if isinstance(frame, nw.DataFrame):
            self._names, self._backend = frame.columns, frame.implementation
            data = frame.to_numpy()
        try:
            dense = data.toarray() if sp.issparse(data) else data
            numbers = np.asarray(dense, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if numbers.ndim != 2:
            raise self._refusal("the data are not rows of numbers")
        return numbers

    def _points(self, numbers: Array) -> Points:
        """Points from a matrix, in the container type of the landmarks."""
        if self._names is None:
            return Points(numbers, copy=False)
        return Points(nw.from_numpy(numbers, self._names, backend=self._backend), copy=False)

    def _require_gradient(self) -> None:
        first = self.landmarks[:1]
        try:
            self.kernel.gram(first, first).input_gradient()
        except NotDifferentiableError as error:
            raise self._refusal(str(error)) from None

    def _refusal(self, reason: str) -> NotDifferentiableError:
        return NotDifferentiableError(
            f"{self.owner}: features of {self.kernel!r} have no pre-images that could be computed: "
            f"{reason.rstrip('.')}. Keep the data themselves, or look up the nearest landmark."
        )
