"""Mean embeddings of samples, and the witness function: where two samples differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.inference.samples import kernels_for, sample
from mercer.kernels.base import Kernel, checked_weight
from mercer.kernels.points import Points
from mercer.sampling import random_numbers


@dataclass(frozen=True, eq=False, repr=False)
class Embedding:
    """A function sum_i w_i k(., x_i): the mean embedding of a sample, or a difference of two.

    Attributes
    ----------
    kernel : Kernel
        The kernel, with numbers in place of rules.
    points : Points
        The rows.
    weights : ndarray of shape (n,)
        Their weights.

    Examples
    --------
    >>> import mercer as mc
    >>> mu = mc.inference.mean_embedding([[0.0], [2.0]], mc.RBF())
    >>> mu([[1.0]]).round(4).tolist()
    [0.6065]
    >>> nu = mc.inference.mean_embedding([[1.0]], mc.RBF())
    >>> round((mu - nu).norm, 4)
    0.5955
    """

    kernel: Kernel
    points: Points
    weights: Array

    def __call__(self, x: Any) -> Array:
        """The values of the function at the rows of x."""
        rows = sample("Embedding", "x", x, least=1)
        return np.asarray(self.kernel.gram(rows, self.points) @ self.weights)

    def inner(self, other: Embedding) -> float:
        """The inner product with another function of the same kernel."""
        if other.kernel != self.kernel:
            raise DataError(
                f"Embedding: {self.kernel!r} and {other.kernel!r} have different spaces; embed "
                "both samples with the same kernel, whose parameters are numbers."
            )
        return float(self.weights @ (self.kernel.gram(self.points, other.points) @ other.weights))

    @property
    def norm(self) -> float:
        """The norm of the function; of a difference of embeddings, the discrepancy."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def __sub__(self, other: Embedding) -> Embedding:
        points = Points.concatenate([self.points, other.points.ordered_like(self.points)])
        return Embedding(self.kernel, points, np.concatenate([self.weights, -other.weights]))

    def __repr__(self) -> str:
        return f"Embedding({len(self.points)} rows, {self.kernel!s})"


def mean_embedding(x: Any, kernel: Any = None, *, sample_weight: Any = None) -> Embedding:
    """The mean embedding of a sample: the function mu(t) = mean of k(t, x_i).

    Parameters
    ----------
    x : array-like, data frame, list or Points
        The rows.
    kernel : Kernel, str or callable, optional
        The kernel; ``RBF("columns")`` by default, with length-scales from x.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    Embedding
        A function of rows, with ``norm``, ``inner`` and differences.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.inference.mean_embedding(["ab", "ba"], mc.Spectrum(1))(["a"]).tolist()
    [1.0]
    """
    points = sample("mean_embedding", "x", x, least=1)
    rng = random_numbers(0, "mean_embedding")
    made = kernels_for("mean_embedding", kernel, points, rng, each=1, both=False)[0]
    weight = np.ones(len(points))
    if sample_weight is not None:
        weight = checked_weight(made, sample_weight, len(points)).astype(np.float64)
    return Embedding(made, points, weight / weight.sum())


def witness(x: Any, y: Any, kernel: Any = None) -> Embedding:
    """The witness function mu_x - mu_y: positive where x has more rows, negative where y has.

    Its norm is the maximum mean discrepancy. `mercer.plot.WitnessDisplay` draws it.

    Parameters
    ----------
    x, y : array-like, data frame, list or Points
        The samples.
    kernel : Kernel, str or callable, optional
        The kernel; ``RBF("columns")`` by default, with length-scales from all rows.

    Returns
    -------
    Embedding
        The function.

    Examples
    --------
    >>> import mercer as mc
    >>> f = mc.inference.witness([[0.0], [1.0]], [[4.0], [5.0]], mc.RBF())
    >>> f([[0.0], [2.5], [5.0]]).round(2).tolist()
    [0.8, 0.0, -0.8]
    """
    first, second = sample("witness", "x", x, least=1), sample("witness", "y", y, least=1)
    points = Points.concatenate([first, second.ordered_like(first)])
    rng = random_numbers(0, "witness")
    made = kernels_for("witness", kernel, points, rng, each=1, both=False)[0]
    n, m = len(first), len(second)
    weights = np.repeat([1.0 / n, -1.0 / m], [n, m])
    return Embedding(made, points, weights)
