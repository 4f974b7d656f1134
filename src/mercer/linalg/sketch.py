r"""A low-rank approximation of a positive semi-definite matrix from products with random vectors.

With A Omega = Y for a random orthonormal Omega, the Nystrom approximation is

.. math:: \hat A = Y (\Omega^\top Y)^{-1} Y^\top = U \operatorname{diag}(\lambda) U^\top ,

which needs no entries of A. It is never above A, and on the average not far from the best of its
rank. See Frangella, Tropp and Udell (2023), Randomized Nystrom preconditioning, algorithm 2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, qr, solve_triangular

from mercer.exceptions import ValidityError

Array = NDArray[np.floating[Any]]

_TRIALS = 8


@dataclass(frozen=True, eq=False)
class Sketch:
    """A factor F with A close to F F', its columns orthogonal and falling in length."""

    factor: Array  # (n, k): F = U diag(sqrt(values))
    values: Array  # (k,): the eigenvalues of F F', descending
    trace_error: float  # the trace of A - F F' relative to that of A


def nystrom_sketch(
    multiply: Callable[[Array], Array], diagonal: Array, rank: int, *, rng: Any
) -> Sketch:
    """Approximate a matrix from one product with `rank` random vectors.

    Parameters
    ----------
    multiply : callable
        ``multiply(V)`` returns A @ V.
    diagonal : ndarray of shape (n,)
        The diagonal of A.
    rank : int
        How many vectors.
    rng : RandomState
        What they are drawn with.

    Returns
    -------
    Sketch
        The approximation.

    Raises
    ------
    ValidityError
        If A is not positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg.sketch import nystrom_sketch
    >>> x = np.arange(6.0)
    >>> A = np.outer(x, x)
    >>> found = nystrom_sketch(lambda V: A @ V, A.diagonal(), 3, rng=np.random.RandomState(0))
    >>> found.values.round(6).tolist()
    [55.0, 0.0, 0.0]
    """
    n, total = len(diagonal), float(np.sum(diagonal, dtype=np.float64))
    omega = qr(rng.standard_normal((n, min(rank, n))), mode="economic")[0]
    image = np.asarray(multiply(omega))
    eps = float(np.finfo(image.dtype).eps)
    image = image.astype(np.float64, copy=False)
    # A small shift keeps the factor real, and is taken off the eigenvalues again.
    shift = np.sqrt(n) * eps * float(np.linalg.norm(image, 2) if image.size else 0.0)
    upper, shift = _factor(omega, image, max(shift, np.finfo(np.float64).tiny))
    left, lengths, _ = np.linalg.svd(
        solve_triangular(upper, (image + shift * omega).T, trans="T").T, full_matrices=False
    )
    values = np.maximum(lengths**2 - shift, 0.0)
    error = max(0.0, 1 - float(values.sum()) / total) if total > 0 else 0.0
    return Sketch(left * np.sqrt(values), values, error)


def _factor(omega: Array, image: Array, shift: float) -> tuple[Array, float]:
    """The Cholesky factor of Omega'(Y + shift Omega), and the shift that it took."""
    inner = omega.T @ image
    inner = (inner + inner.T) / 2
    for _ in range(_TRIALS):
        try:
            return cholesky(inner + shift * np.eye(len(inner))), shift
        except np.linalg.LinAlgError:
            shift *= 10
    raise ValidityError(
        "nystrom_sketch: the matrix is not positive semi-definite; repair it, or use a kernel "
        "whose is_psd is True."
    )
