"""Step sizes of least mean squares: how large they may be, and what errors they can lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh

from mercer.estimator.base import shown
from mercer.exceptions import NumericalWarning, ParameterError, ValidityError, warn
from mercer.kernels.base import Kernel

Array = NDArray[np.floating[Any]]

_ROUNDING = 1e-8
_FELT = 0.01
_SLACK = 2.0  # for rounding
_REMEDY = (
    "use a kernel whose is_psd is True, or pass a matrix repaired by mercer.validity.repair with "
    "Precomputed()"
)


@dataclass(frozen=True)
class StepRule:
    """How large a step is."""

    given: float | Literal["auto"]  # what the user asked for
    alpha: float  # weight of the squared norm

    def for_batch(self, curvature: float) -> float:
        """The size of steps that see all rows, `curvature` being the largest eigenvalue."""
        if self.given != "auto":
            return self._checked(curvature, "the largest eigenvalue of K")
        total = curvature + self.alpha
        return 1 / total if total > 0 else 1.0

    def for_rows(self, curvature: float, weighted: bool, before: float) -> float:
        """The size of steps that see one row, at most that of the steps before if found here."""
        if self.given == "auto":
            total = curvature + self.alpha
            return min(before, 0.5 / total if total > 0 else 1.0)
        step = self._checked(curvature, "the largest k(x, x)" + " times weight" * weighted)
        if step * self.alpha >= 1:
            raise ParameterError(
                f"KernelLMS: step_size = {step:.6g} times alpha = {self.alpha:.6g} is not "
                "below 1, so that a step would forget everything; make one of them smaller."
            )
        return step

    def _checked(self, curvature: float, name: str) -> float:
        """The step size given, if steps of this size come to rest."""
        step, total = float(self.given), curvature + self.alpha
        if total > 0 and step >= 2 / total:
            alpha = f" plus alpha = {self.alpha:.6g}" if self.alpha else ""
            raise ParameterError(
                f"KernelLMS: step_size = {step:.6g} would make the errors grow, because it is not "
                f"below {2 / total:.6g}, which is 2 / ({name} = {curvature:.6g}{alpha}); pass a "
                f'smaller one, such as {1 / total:.3g}, or "auto".'
            )
        return step


def check_diagonal(kernel: Kernel, diagonal: Array) -> None:
    """Refuse a kernel under which a point has a negative squared length."""
    least = float(diagonal.min())
    if kernel.is_psd is not True and least < -_ROUNDING * float(np.abs(diagonal).max()):
        raise ValidityError(
            f"KernelLMS: {shown(kernel)} has k(x, x) = {least:.3g} at a row, so that a step would "
            f"make its error larger; {_REMEDY}."
        )


def warn_of_negative_directions(kernel: Kernel, gram: Array) -> None:
    """Say that a kernel is not valid on some rows, if that will be felt.

    Along an eigenvector with eigenvalue s < 0, a pass over the rows multiplies the function by
    about exp(-eta s), and eta is of the order of 1 / k(x, x).
    """
    least = float(eigvalsh(gram, subset_by_index=[0, 0])[0])
    if least < -_FELT * float(np.abs(gram.diagonal()).max()):
        warn(
            f"KernelLMS: the Gram matrix of {shown(kernel)} has the eigenvalue {least:.3g} on "
            f"these rows, and in such a direction steps lead away from the targets; {_REMEDY}.",
            NumericalWarning,
        )


def error_bounds(
    targets: Array, steps: Array, diagonal: Array, reach: float
) -> tuple[Array, float]:
    r"""What the errors of rows can be at most if the kernel is valid.

    A step is :math:`f := ((1 - \eta\alpha) I - \eta w\, k_x k_x^\top) f + \eta w\, y\, k_x`. As
    :math:`\eta\alpha < 1` and :math:`\eta (w\, k(x, x) + \alpha) < 2`, the first part is not longer
    than f, so that the norm of f grows by :math:`\eta w\, |y| \sqrt{k(x, x)}` at most, and
    :math:`|f(x)|` is at most that norm times :math:`\sqrt{k(x, x)}`.
    """
    sizes, lengths = np.abs(targets).max(axis=1), np.sqrt(np.maximum(diagonal, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        norms = reach + np.concatenate([[0.0], np.cumsum(steps * sizes * lengths)])
        return sizes + lengths * norms[:-1], float(norms[-1])


def check_growth(kernel: Kernel, errors: Array, bounds: Array, advice: str) -> None:
    """Refuse errors that steps of an allowed size do not lead to."""
    if not np.isfinite(errors).all():
        raise ParameterError(f"KernelLMS: the errors overflow; {advice}, or scale the targets.")
    sizes = np.abs(errors).max(axis=1)
    grown = np.flatnonzero(sizes > _SLACK * bounds)
    if not len(grown):
        return
    what = f"KernelLMS: the errors grow, to {sizes[grown[0]]:.3g}"
    if kernel.is_psd is True:
        raise ParameterError(f"{what}; {advice}.")
    raise ValidityError(
        f"{what}, as they cannot do where {shown(kernel)} is positive semi-definite; {_REMEDY}."
    )
