"""The Cholesky factor of a Gram matrix plus a diagonal, with jitter if it is necessary.

The factor overwrites the matrix. LAPACK writes the upper triangle; the strict lower one still holds
the matrix, which is restored from it after a failed attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from mercer.arrays import Array
from mercer.exceptions import ValidityError
from mercer.linalg import blocked
from mercer.linalg.symmetric import asymmetry, mirror
from mercer.sampling import blocks

Result = TypeVar("Result")

#: Jitter of a Gram matrix to try in turn, as a fraction of its mean diagonal.
LADDER = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

# Number of rows per block of correlations.
_BLOCK = 256


class Advice(NamedTuple):
    """Texts of messages: a model's name for its ridge, and the repair of an invalid matrix."""

    ridge: str
    repair: str


RIDGE = Advice(
    "alpha",
    'repair it with psd="clip", "flip" or "shift", or use a kernel whose is_psd is True',
)


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor L of a matrix A = L L', stored as its transpose.

    If the rows of A were sorted first, L is the factor of the sorted matrix, and products L v and
    solutions of L x = b have sorted rows on one side.
    """

    # (n, n): L' in the upper triangle, in Fortran order; entries below the diagonal are undefined.
    # (LAPACK inverts this triangle faster than the other.)
    upper: Array
    jitter: float = 0.0  # addition to the diagonal without which the factor does not exist
    fraction: float = 0.0  # the jitter as a fraction of the mean diagonal of the Gram matrix
    cause: str = ""  # why jitter was needed; empty if it was not
    remedy: str = ""  # how to avoid jitter
    order: NDArray[np.intp] | None = None  # (n,): the rows of A as they were sorted, if they were

    def solve(self, right: Array) -> Array:
        """Solve A x = b."""
        potrs = get_lapack_funcs("potrs", (self.upper,))
        right = right if self.order is None else right[self.order]
        solved: Array = potrs(self.upper, right, lower=False)[0]
        return solved if self.order is None else solved[np.argsort(self.order)]

    def half_solve(self, right: Array) -> Array:
        """Solve L x = b, in place if b is in Fortran order."""
        right = right if self.order is None else right[self.order]
        right = np.asfortranarray(right, self.upper.dtype)
        return blocked.solve_triangular(self.upper, right, transposed=True)

    def multiply(self, vectors: Array) -> Array:
        """The product L v, which has covariance A for standard normal v."""
        trmm = get_blas_funcs("trmm", (self.upper, vectors))
        product: Array = trmm(1.0, self.upper, vectors, trans_a=1)
        return product if self.order is None else product[np.argsort(self.order)]

    def log_determinant(self) -> float:
        """The logarithm of the determinant of A."""
        return 2 * float(np.sum(np.log(self.upper.diagonal()), dtype=np.float64))

    def inverse(self, *, overwrite: bool) -> Array:
        """The inverse of A: its upper triangle, in Fortran order."""
        potri = get_lapack_funcs("potri", (self.upper,))
        inverse: Array = potri(self.upper, lower=False, overwrite_c=overwrite)[0]
        if self.order is None:
            return inverse
        mirror(inverse)
        places = np.argsort(self.order)
        return np.asfortranarray(inverse[np.ix_(places, places)])

    def extended(self, cross: Array, corner: Array) -> Factor:
        """The factor of A extended by rows and columns at its end."""
        n, m = cross.shape
        half = self.half_solve(np.array(cross, self.upper.dtype, order="F"))
        grown = np.empty((n + m, n + m), self.upper.dtype, order="F")
        grown[:n, :n], grown[:n, n:] = self.upper, half
        rest = np.asfortranarray(corner - half.T @ half)
        if not _factorise(rest, rest.diagonal() + rest.dtype.type(self.jitter)):
            raise ValidityError(
                "the Gram matrix with the new rows is not positive definite: rows are duplicated, "
                "or the length-scale is too long; raise the noise, or fit all rows again."
            )
        grown[n:, n:] = rest
        order = None if self.order is None else np.append(self.order, np.arange(n, n + m))
        return replace(self, upper=grown, order=order)

    def warning(self) -> str:
        """Why jitter was needed, in a sentence; empty if it was not."""
        if not self.jitter:
            return ""
        return (
            f"the Gram matrix is numerically singular: {self.cause}; {self.jitter:.3g} was added "
            f"to its diagonal (jitter_). To avoid this, {self.remedy}"
        )


def factorise(gram: Array, ridge: float | Array = 0.0, advice: Advice = RIDGE) -> Factor:
    """Factorise ``gram + diag(ridge)`` with the smallest jitter on the ladder that succeeds.

    It takes fewer operations if entries far from the diagonal are zero up to rounding.
    """
    a = in_fortran_order(gram)
    original = a.diagonal().copy()

    def attempt(diagonal: Array) -> Array | None:
        if _factorise(a, diagonal):
            return a
        _restore(a, original)
        return None

    upper, jitter = with_jitter(attempt, a, ridge, advice)
    return Factor(upper, *jitter)


class Jitter(NamedTuple):
    """An addition to a diagonal, absolute and relative to its mean, with its cause and remedy."""

    size: float = 0.0
    fraction: float = 0.0
    cause: str = ""
    remedy: str = ""


def climb(
    attempt: Callable[[float], Result | None], shifts: Iterable[float]
) -> tuple[Result, float] | None:
    """The first result of a function of a shift of a diagonal, and the shift; None if all fail."""
    for shift in shifts:
        result = attempt(shift)
        if result is not None:
            return result, shift
    return None


def rungs(first: float, most: float, factor: float = 10.0) -> Iterator[float]:
    """Shifts that grow by a factor, from the first to at most the last."""
    while first <= most:
        yield first
        first *= factor


def with_jitter(
    attempt: Callable[[Array], Result | None], gram: Array, ridge: float | Array, advice: Advice
) -> tuple[Result, Jitter]:
    """Call a function of ``gram + diag(ridge)`` with the smallest jitter at which it succeeds."""
    diagonal = gram.diagonal().copy()
    added, mean = np.asarray(ridge, dtype=gram.dtype), float(diagonal.mean())
    result = attempt(diagonal + added)
    if result is not None:
        return result, Jitter()
    cause, remedy = _cause(gram, advice)

    def shifted(fraction: float) -> Result | None:
        return attempt(diagonal + (added + gram.dtype.type(fraction * mean)))

    above = [fraction for fraction in LADDER if fraction > np.finfo(gram.dtype).eps]
    climbed = climb(shifted, above if mean > 0 else ())
    if climbed is not None:
        result, fraction = climbed
        return result, Jitter(fraction * mean, fraction, cause, remedy)
    least = f"{float(np.min(ridge)):g}"
    raise ValidityError(
        f"the Gram matrix is not positive semi-definite: with {advice.ridge} = {least} and a "
        f"jitter of {LADDER[-1]:g} of its mean diagonal it has no Cholesky factor ({cause}); "
        f"{advice.repair}."
    )


def shifted_cholesky(matrix: Array, shift: float, most: float) -> tuple[Array, float] | None:
    """The upper Cholesky factor of ``matrix + shift * I`` in Fortran order, and the shift.

    The shift grows tenfold until the factor exists; None if it would exceed `most`.
    """

    def attempt(shift: float) -> Array | None:
        trial = np.array(matrix, order="F")
        exists = _factorise(trial, trial.diagonal() + shift)
        return np.tril(trial.T).T if exists else None  # in Fortran order

    return climb(attempt, rungs(shift, most))


def is_positive_definite(gram: Array, shift: float) -> bool:
    """Whether ``gram + shift * I`` is symmetric and has a Cholesky factor."""
    a = in_fortran_order(gram)
    if asymmetry(a).size > shift:
        return False
    diagonal = a.diagonal().copy()
    exists = _factorise(a, diagonal + a.dtype.type(shift))
    _restore(a, diagonal)
    return exists


def in_fortran_order(gram: Array) -> Array:
    """A symmetric matrix in Fortran order, which LAPACK overwrites: a transpose, not a copy."""
    if gram.flags.f_contiguous:
        return gram
    return gram.T if gram.flags.c_contiguous else np.asfortranarray(gram)


def _factorise(a: Array, diagonal: Array) -> bool:
    """Overwrite the upper triangle of a Fortran-ordered matrix with its factor."""
    np.fill_diagonal(a, diagonal)
    return blocked.factorise(a)


def _restore(a: Array, diagonal: Array) -> None:
    """Undo a factorisation: the strict lower triangle still holds the matrix."""
    mirror(a.T)
    np.fill_diagonal(a, diagonal)


def _cause(gram: Array, advice: Advice) -> tuple[str, str]:
    """Why a Gram matrix is close to singular, and what to do, from its correlations."""
    n = len(gram)
    slack = np.sqrt(np.finfo(gram.dtype).eps) * 1e-4
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 1 / np.sqrt(gram.diagonal())
    total, equal, above = 0.0, 0, False
    for rows in blocks(n, step=_BLOCK):
        block = np.nan_to_num(np.abs(gram[rows] * scale[rows, None] * scale), posinf=0.0)
        total += float(block.sum())
        equal += int(np.count_nonzero(block >= 1 - slack))
        above |= bool(block.max() > 1 + max(1e-3, slack))
    pairs, mean = (equal - n) // 2, (total - n) / max(1, n * (n - 1))
    if above or gram.diagonal().min() < 0:
        return (
            "the kernel is indefinite: an entry exceeds sqrt(k(x, x) k(z, z))",
            advice.repair,
        )
    copies = _copies(gram) if pairs > 0 else ""
    if mean > 0.95 and not copies:
        return (
            f"the length-scale is too long: rows correlate at {mean:.4f} on average",
            f"shorten the length-scale or raise {advice.ridge}",
        )
    if pairs > 0:
        return (
            f"rows are duplicated: {pairs} pair{'s' if pairs > 1 else ''} cannot be distinguished"
            + copies,
            f"keep one row of each, or raise {advice.ridge}",
        )
    return (
        "the kernel has fewer numerical dimensions than there are rows",
        f"raise {advice.ridge}",
    )


def _copies(gram: Array) -> str:
    """A clause that names two equal rows of data; empty if no rows of the matrix are equal."""
    order = np.lexsort((gram[:, -1], gram[:, 0]))
    near = 8 * np.finfo(gram.dtype).eps * float(np.abs(gram).max())
    for i, j in pairwise(order):
        if np.abs(gram[i] - gram[j]).max() <= near:
            return f", such as rows {min(i, j)} and {max(i, j)}"
    return ""
