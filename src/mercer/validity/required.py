"""Gram matrices for exact models: forecast, computed, and checked before they are used."""

from __future__ import annotations

import numpy as np

from mercer import memory, validity
from mercer.arrays import Array
from mercer.checks import require_finite_values
from mercer.exceptions import ValidityError
from mercer.kernels.base import Kernel, pairs_of
from mercer.kernels.points import Points
from mercer.linalg.cholesky import Advice, is_positive_definite
from mercer.program import engine
from mercer.program.specialise import floating_type

# In matrices of float64, beside the Gram matrix: what `validity` needs to check and to repair one,
# and the directions that a repair keeps.
_CHECK_COPIES = 3.1
_REPAIR_COPIES = 6.6
_KEPT_COPIES = 1.0


def gram_matrix(
    owner: object,
    kernel: Kernel,
    points: Points,
    matrices: float,
    psd: str = "raise",
    remedy: str | None = None,
) -> Array:
    """The Gram matrix, after a forecast of memory; NaN and infinity are refused."""
    n, name = len(points), owner if isinstance(owner, str) else type(owner).__name__
    pairs = pairs_of(kernel, points)
    itemsize = floating_type(kernel.expression, pairs).itemsize
    if remedy is None and itemsize == 8:
        remedy = "pass X as float32"
    size = int(n * n * _bytes_per_entry(kernel, matrices, itemsize, psd))
    if size > memory.SMALL:
        remedy = "fit on fewer rows" + (f", or {remedy}" if remedy else "")
        memory.require(size, f"{name} on {n} rows", remedy)
    return require_finite_values(engine.gram(kernel.expression, pairs), kernel, f"{name}: ")


def _bytes_per_entry(kernel: Kernel, matrices: float, itemsize: int, psd: str) -> float:
    """Peak memory of a fit, for each entry of the Gram matrix."""
    solving = matrices * itemsize
    if kernel.is_psd is True:
        return solving
    if psd == "raise":
        return max(solving, itemsize + 8 * _CHECK_COPIES)
    return max(solving + 8 * _KEPT_COPIES, itemsize + 8 * _REPAIR_COPIES)


def require_positive(owner: object, kernel: Kernel, gram: Array, advice: Advice) -> None:
    """Refuse an indefinite matrix of a kernel that is not known to be valid."""
    if kernel.is_psd is True:
        return
    # Quicker than eigenvalues, and stricter: the tolerance of the report is at least this.
    slack = 10 * len(gram) * float(np.finfo(gram.dtype).eps * gram.diagonal().mean())
    if is_positive_definite(gram, slack):
        return
    report = validity.check(gram)
    if report.valid is False:
        name = owner if isinstance(owner, str) else type(owner).__name__
        raise ValidityError(
            f"{name}: the Gram matrix of {kernel!r} is not valid. {report} "
            f"{advice.repair[0].upper()}{advice.repair[1:]}."
        )
