r"""Which columns make two samples differ: Shapley values of the discrepancy.

A kernel that is a product of kernels of columns gives a discrepancy for each set S of columns,

.. math:: v(S) = \sum_{ab} s_a s_b \prod_{l \in S} k_l(a, b), \qquad v(\emptyset) = 0 .

The Shapley value of a column is its mean gain over all orders of the columns. For products the mean
is an integral of a polynomial,

.. math:: \phi_j = \sum_{ab} s_a s_b (k_j - 1) \int_0^1 \prod_{l \ne j} (1 - t + t k_l) \, dt ,

which Gauss-Legendre quadrature gives exactly. The values add up to the squared discrepancy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.inference.mmd import difference_weights
from mercer.inference.samples import kernels_for, sample
from mercer.kernels.algebra import Product
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import plain
from mercer.kernels.points import Points
from mercer.kernels.stationary import RBF, Laplacian
from mercer.parallel import single_blas
from mercer.sampling import RowNumbers, blocks, random_numbers

_OWNER = "attribution"
# Bytes of the kernel values of a block of rows, of all columns.
_BLOCK_BYTES = 2**25
# Columns shown in the text.
_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Attribution:
    """The share of each column in the discrepancy of two samples.

    Attributes
    ----------
    names : tuple of str
        The columns, or the factors of the kernel.
    values : ndarray of shape (d,)
        Their Shapley values, which add up to `statistic`. A column that hides the difference, since
        it makes all rows less alike, has a negative value.
    statistic : float
        The squared maximum mean discrepancy (the biased estimate).

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(2, 100, 3))
    >>> print(mc.inference.attribution(x, y + [0.0, 2.0, 0.0]))
    squared discrepancy 0.244: x1 +0.384, x0 -0.060, x2 -0.080
    """

    names: tuple[str, ...]
    values: Array
    statistic: float

    @property
    def order(self) -> RowNumbers:
        """The columns by descending value."""
        return np.argsort(-self.values, kind="stable")

    def __repr__(self) -> str:
        return f"Attribution({len(self.names)} columns, statistic={self.statistic:.4g})"

    def __str__(self) -> str:
        shares = [f"{self.names[j]} {self.values[j]:+.3f}" for j in self.order[:_SHOWN]]
        hidden = len(self.names) - len(shares)
        others = f", {hidden} more" if hidden else ""
        return f"squared discrepancy {self.statistic:.3f}: {', '.join(shares)}{others}"


@single_blas()
def attribution(x: Any, y: Any, kernel: Any = None) -> Attribution:
    """Say which columns make two samples differ, by exact Shapley values.

    Parameters
    ----------
    x, y : array-like, data frame or Points
        The samples.
    kernel : RBF, Laplacian or Product, optional
        A product kernel: the RBF and the Laplacian are products over their columns, and the factors
        of a `Product` count as columns. ``RBF("columns")`` by default.

    Returns
    -------
    Attribution
        One value for each column; they add up to the squared discrepancy.

    References
    ----------
    Shapley, A value for n-person games, 1953.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(2, 50, 2))
    >>> y[:, 1] += 1.0
    >>> mc.inference.attribution(x, y).order.tolist()
    [1, 0]
    """
    first, second = sample(_OWNER, "x", x, least=1), sample(_OWNER, "y", y, least=1)
    points = Points.concatenate([first, second.ordered_like(first)])
    rng = random_numbers(0, _OWNER)
    made = kernels_for(_OWNER, kernel, points, rng, each=1, both=False)[0]
    factors, names = factors_of(made, points)
    weights = difference_weights(len(first), len(second))
    values = shapley_values(factors, points, weights)
    return Attribution(names, values, float(values.sum()))


def is_product(kernel: Any) -> bool:
    """Whether a kernel is a product over columns."""
    return isinstance(kernel, RBF | Laplacian | Product)


def factors_of(kernel: Kernel, points: Points) -> tuple[list[Kernel], tuple[str, ...]]:
    """The factors of a product kernel, and their names."""
    if isinstance(kernel, Product):
        return list(kernel.kernels), tuple(map(str, kernel.kernels))
    if not isinstance(kernel, RBF | Laplacian):
        raise ParameterError(
            f"{_OWNER}: kernel = {kernel!r} is not a product over columns; pass mercer.RBF, "
            "mercer.Laplacian or a product of kernels."
        )
    names = points.column_names(kernel._reader.leaves[0][1])
    lengths = np.broadcast_to(np.asarray(plain(kernel.length_scale), float), len(names))
    columns = [kernel.replace(length_scale=float(length)).on(j) for j, length in enumerate(lengths)]
    return columns, names


def shapley_values(factors: list[Kernel], points: Points, weights: Array) -> Array:
    """The Shapley value of each factor in w' K w, for weights of sum 0."""
    n, d = len(points), len(factors)
    nodes, masses = np.polynomial.legendre.leggauss((d + 1) // 2)
    values = np.zeros(d)
    for rows in blocks(n, 4 * d * n, _BLOCK_BYTES, least=1):
        part = points[rows]
        matrices = np.stack([np.asarray(k(part, points), dtype=np.float64) for k in factors])
        gains = (matrices - 1.0) * np.multiply.outer(weights[rows], weights)
        for node, mass in zip(0.5 * (nodes + 1.0), 0.5 * masses, strict=True):
            others = _products_of_others(1.0 - node + node * matrices)
            values += mass * np.einsum("jab,jab->j", gains, others)
    return values


def _products_of_others(factors: Array) -> Array:
    """For each matrix the product of all other ones, without a division."""
    others = np.ones_like(factors)
    np.cumprod(factors[:-1], axis=0, out=others[1:])
    after = np.ones_like(factors[0])
    for j in range(len(factors) - 1, -1, -1):
        others[j] *= after
        after = after * factors[j]
    return others
