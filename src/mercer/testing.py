"""Checks of the contract of a kernel, for kernels of your own."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, MercerError, NotDifferentiableError, ParameterError
from mercer.kernels.base import Kernel, Scope, pairs_of
from mercer.kernels.categorical import Categorical
from mercer.kernels.graphs.nodes import NodeKernel
from mercer.kernels.special import Precomputed
from mercer.kernels.tree import declared
from mercer.kernels.vector import VectorKernel, plain_values
from mercer.parallel import cached_property, threads
from mercer.program import engine, reference
from mercer.program.expression import walk
from mercer.program.pairs import Pairs
from mercer.validity.check import check

__all__ = ["check_kernel"]

# Largest rounding error of an entry, relative to sqrt(k(x, x) k(z, z)), by floating type.
_TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}
# Step of finite differences.
_STEP = 1e-4
# Relative tolerance of finite differences.
_SLOPE_TOLERANCE = 1e-6
# Number of rows that fills several tiles, so that several threads share the work.
_MANY_ROWS = 300


def check_kernel(kernel: Kernel, X: Any = None, *, Z: Any = None, random_state: int = 0) -> None:
    """Check the contract of a kernel; raise an `AssertionError` that names the failed check.

    The checks: symmetry; positive semi-definiteness, where ``is_psd`` claims it; ``diag``, blocks
    and products equal those of the matrix; the engine equals the NumPy reference, and a traced
    method equals the method called with numbers; gradients in parameters and inputs equal central
    differences; the number of threads does not change a bit; theta makes a round trip; ``clone``,
    ``pickle``, ``repr``, equality and hash agree. Tolerances are 1e-12 in float64 and 1e-5 in
    float32, relative to sqrt(k(x, x) k(z, z)).

    Kernels that hold a Python function (`FunctionKernel`, ``.warp``, ``.scaled_by``) need neither a
    repr that rebuilds them nor a pickle; classes that cannot be imported need no pickle, and
    kernels on the nodes of a graph no such repr. Kernels without a gradient are not differentiated.

    Parameters
    ----------
    kernel : Kernel
        The kernel. Length-scales such as ``"median"`` are resolved on X first.
    X : array-like, data frame or list, optional
        Points for the checks. By default a few random points: numbers, non-negative ones for
        histogram kernels, integers for categories, strings for structured kernels. Required if the
        kernel reads columns by name. Numbers are checked in float64 and in float32.
    Z : like X, optional
        A second collection for ``k(X, Z)``; by default further random points, or some of X.
    random_state : int
        Seed of the points, the weights and the blocks.

    Raises
    ------
    AssertionError
        With a sentence that names the kernel, the check and the violation.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.testing.check_kernel(2.0 * mc.RBF() + mc.Linear())

    A kernel that claims too much does not pass:

    >>> class Difference(mc.Stationary):
    ...     psd = True
    ...
    ...     def profile(self, r2):
    ...         return 1 - r2
    >>> mc.testing.check_kernel(Difference())
    Traceback (most recent call last):
        ...
    AssertionError: Difference() fails the check of positive semi-definiteness: ...
    """
    if not isinstance(kernel, Kernel):
        raise ParameterError(f"check_kernel: {kernel!r} is not a kernel; pass an instance of one.")
    rng = np.random.default_rng(random_state)
    made_up = X is None
    if made_up:
        X = _example(kernel, rng, 13)
    X, Z = _double(X), _double(Z)
    kernel = kernel.resolve(X)
    rows = kernel.prepare(X)
    if Z is None:
        Z = _like(kernel, X, rng) if made_up else rows[::2]
    case = _Case(kernel, rows, kernel.prepare(Z), random_state)
    for name, run in _CHECKS.items():
        try:
            run(case)
        except (_CheckError, MercerError) as error:
            raise AssertionError(f"{kernel!r} fails the check of {name}: {error}") from error


class _CheckError(Exception):
    """The violation that a check reports; `check_kernel` adds the name of the check."""


def _require(condition: bool, finding: str) -> None:
    if not condition:
        raise _CheckError(finding)


@dataclass(frozen=True)
class _Case:
    """A kernel with the points of the checks."""

    kernel: Kernel
    rows: Any
    cols: Any
    seed: int

    @cached_property
    def square(self) -> Array:
        """k(X)."""
        return self.kernel(self.rows)

    @cached_property
    def cross(self) -> Array:
        """k(X, Z)."""
        return self.kernel(self.rows, self.cols)

    def random(self, *shape: int) -> Array:
        """Standard normal numbers of a shape, equal in every call."""
        return np.random.default_rng(self.seed).standard_normal(shape)

    def bound(self, rows: Any, cols: Any) -> Array:
        """sqrt(k(x, x) k(z, z)) for each pair."""
        sizes = (np.sqrt(np.abs(self.kernel.diag(p).astype(float))) for p in (rows, cols))
        return np.asarray(np.multiply.outer(*sizes))


def _require_close(value: Array, wanted: Array, bound: Array, what: str) -> None:
    """Compare entry by entry, relative to the bound and to the wanted value itself."""
    _require(value.shape == wanted.shape, f"{what}: shape {value.shape} instead of {wanted.shape}.")
    _require(bool(np.isfinite(value).all()), f"{what}: not all values are finite.")
    if not value.size:
        return
    gap = np.abs(value.astype(float) - wanted)
    allowed = _TOLERANCE[value.dtype] * np.maximum(bound, np.abs(wanted))
    excess = gap - allowed - np.finfo(value.dtype).tiny
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    place = ", ".join(map(str, worst))
    _require(
        excess[worst] <= 0,
        f"{what}: at [{place}] the value is {value[worst]:.17g} instead of {wanted[worst]:.17g}.",
    )


def _symmetry(case: _Case) -> None:
    bound = case.bound(case.rows, case.rows)
    _require_close(case.square, case.square.T, bound, "k(X) is not its transpose")
    if not case.kernel.input_tags()["pairwise"]:
        swapped = case.kernel(case.cols, case.rows).T
        bound = case.bound(case.rows, case.cols)
        _require_close(case.cross, swapped, bound, "k(X, Z) is not the transpose of k(Z, X)")


def _positive_semidefinite(case: _Case) -> None:
    if any(leaf.is_psd is False for leaf, _ in case.kernel._reader.leaves):
        return  # a part declares itself indefinite
    report = check(case.square)
    claim = "is_psd is True, but" if case.kernel.is_psd else "a kernel must be, but"
    _require(report.valid is not False, f"{claim} the matrix is not. {report}")


def _diagonal(case: _Case) -> None:
    diagonal = case.kernel.diag(case.rows)
    bound = np.abs(diagonal)
    _require_close(diagonal, np.diagonal(case.square), bound, "diag(X) is not the diagonal of k(X)")
    lazy = case.kernel.gram(case.rows).diagonal()
    _require_close(lazy, diagonal, bound, "gram(X).diagonal() is not diag(X)")


def _blocks(case: _Case) -> None:
    kernel, n, m = case.kernel, len(case.rows), len(case.cols)
    some, others = np.arange(n)[::2], np.arange(n)[1::3]
    square, cross = kernel.gram(case.rows), kernel.gram(case.rows, case.cols)
    bound = case.bound(case.rows, case.rows)
    for a, b in ((some, others), (some, some), (others, slice(None))):
        wanted = case.square[a][:, b]
        _require_close(square[a, b], wanted, bound[a][:, b], "gram(X)[rows, cols]")
    wanted, bound = case.cross[some], case.bound(case.rows, case.cols)[some]
    half = slice(m // 2)
    _require_close(cross[some, half], wanted[:, half], bound[:, half], "gram(X, Z)[rows, cols]")
    _require_close(kernel(case.rows[some], case.cols), wanted, bound, "k(X[rows], Z)")


def _products(case: _Case) -> None:
    for points, matrix in ((None, case.square), (case.cols, case.cross)):
        gram = case.kernel.gram(case.rows, points)
        bound = case.bound(case.rows, case.rows if points is None else points)
        V, U = case.random(matrix.shape[1], 3), case.random(matrix.shape[0], 2)
        _require_close(gram @ V, matrix @ V, bound @ np.abs(V), "gram @ V")
        _require_close(gram @ V[:, 0], matrix @ V[:, 0], bound @ np.abs(V[:, 0]), "gram @ v")
        _require_close(gram.T @ U, matrix.T @ U, bound.T @ np.abs(U), "gram.T @ U")
        normal, size = gram.normal_matmat(V), bound.T @ (bound @ np.abs(V))
        _require_close(normal, matrix.T @ (matrix @ V), size, "K.T @ (K @ V)")


def _reference(case: _Case) -> None:
    for dtype in (np.float64, np.float32):
        rows, cols = (_cast(p.data, dtype) for p in (case.rows, case.cols))
        if rows is None or cols is None:
            rows, cols = case.rows, case.cols
        elif case.kernel.input_tags()["pairwise"]:
            cols = None
        for points in (None, cols):
            pairs = pairs_of(case.kernel, rows, points)
            values = case.kernel(rows, points)
            bound = case.bound(pairs.rows, pairs.cols)
            wanted = np.asarray(reference.evaluate(case.kernel.expression, pairs), dtype=float)
            what = f"engine and NumPy reference differ on {values.dtype} data"
            _require_close(values, wanted, bound, what)
            _compare_methods(case.kernel, pairs)


def _compare_methods(kernel: Kernel, pairs: Pairs) -> None:
    """Compare the traced methods of a composition with the same methods called with numbers."""
    for leaf, view in kernel._reader.leaves:
        if not isinstance(leaf, VectorKernel):
            continue
        x, z = (
            np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=float)
            for matrix in pairs.matrices(view)
        )
        wanted = plain_values(leaf, x, z)
        if wanted is not None:
            own = Pairs(pairs.rows, pairs.cols, leaf._tree.values, pairs.same)
            values = engine.gram(leaf._trace(Scope(view)), own)
            what = f"{leaf!r} traced, and its methods called with numbers, differ"
            _require_close(values, wanted, np.full(wanted.shape, np.abs(wanted).max()), what)


def _parameter_gradient(case: _Case) -> None:
    kernel = _inside_bounds(case.kernel)
    if not len(kernel.theta):
        return
    for points in (None, case.cols):
        gram = kernel.gram(case.rows, points)
        n, m = gram.shape
        left, right = case.random(n, 2), case.random(m, 2)
        weights = left @ right.T
        try:
            gradients = {"dense": gram.gradient(weights), "low-rank": gram.gradient((left, right))}
        except NotDifferentiableError:
            return
        for i, unit in enumerate(np.eye(len(kernel.theta))):
            slope = weights * _slope(partial(_near_theta, kernel, case.rows, points), unit)
            size = np.abs(slope).sum() + 1e-3 * np.abs(weights * gram.toarray()).sum()
            for form, gradient in gradients.items():
                what = f"d/dtheta of {kernel.theta_names[i]} with {form} weights"
                _require_slope(gradient[i], slope.sum(), size, what)


def _near_theta(kernel: Kernel, rows: Any, cols: Any, move: Array) -> Array:
    return kernel.with_theta(kernel.theta + move)(rows, cols)


def _input_gradient(case: _Case) -> None:
    X, Z = (_cast(points.data, np.float64) for points in (case.rows, case.cols))
    if X is None or Z is None or _is_unfused(case.kernel):
        return
    # Avoid ties, at which |x - z| and min(x, z) have no derivative.
    ranges = np.maximum(np.ptp(X, axis=0), 1e-3)
    X = X + 1e-2 * ranges * np.random.default_rng(case.seed).uniform(0.5, 1.0, X.shape)
    apart = (np.abs(X[:, None] - Z) > 10 * _STEP * ranges).all(axis=2)
    gram = case.kernel.gram(X, Z)
    weights = case.random(*gram.shape) * apart
    try:
        gradient = gram.input_gradient(weights)
    except NotDifferentiableError:
        return
    _require(gradient.shape == X.shape, f"shape {gradient.shape} for data of shape {X.shape}.")
    for j, unit in enumerate(np.diag(ranges)):
        slope = weights * _slope(lambda move: case.kernel(X + move, Z), unit) / ranges[j]
        size = np.abs(slope).sum() + 1e-3 * np.abs(weights * gram.toarray()).sum() / ranges[j]
        for i in range(len(X)):
            _require_slope(gradient[i, j], slope[i].sum(), size, f"d/dx of row {i}, column {j}")


def _slope(function: Callable[[Array], Array], direction: Array) -> Array:
    """The derivative at 0 along a direction, by central differences of fourth order."""
    at = {k: function(k * _STEP * direction).astype(float) for k in (-2, -1, 1, 2)}
    slope: Array = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * _STEP)
    return slope


def _require_slope(value: float, wanted: float, size: float, what: str) -> None:
    _require(
        bool(abs(value - wanted) <= _SLOPE_TOLERANCE * size),
        f"{what} is {value:.9g}, central differences give {wanted:.9g}.",
    )


def _inside_bounds(kernel: Kernel) -> Kernel:
    """The kernel with bounded parameters moved far enough inside for a difference quotient."""
    low, high = kernel.theta_bounds.T
    room = np.minimum(4 * _STEP, (high - low) / 2)
    return kernel.with_theta(np.clip(kernel.theta, low + room, high - room))


def _thread_count(case: _Case) -> None:
    kernel, rows = case.kernel, case.rows
    if not _is_unfused(kernel):
        rows = rows[np.arange(max(_MANY_ROWS, len(rows))) % len(rows)]

    def results() -> Iterator[Array]:
        gram = kernel.gram(rows)
        yield kernel(rows)
        yield gram @ case.random(len(rows), 2)
        try:
            yield gram.gradient((case.random(len(rows), 1), case.random(len(rows), 1)))
        except NotDifferentiableError:
            return

    with threads(1):
        one = list(results())
    with threads(2):
        two = list(results())
    names = ("k(X)", "gram @ V", "the gradient")
    for name, a, b in zip(names, one, two, strict=False):
        _require(np.array_equal(a, b), f"{name} is not the same with one thread and with two.")


def _theta(case: _Case) -> None:
    kernel = _inside_bounds(case.kernel)
    _require(case.kernel.with_theta(case.kernel.theta) == case.kernel, "with_theta(theta) differs.")
    theta = kernel.theta
    low, high = kernel.theta_bounds.T
    moved = np.clip(theta + _STEP, low, high)
    there = kernel.with_theta(moved)
    _require(np.allclose(there.theta, moved, rtol=0, atol=1e-9), "with_theta(t).theta is not t.")
    _require(not len(theta) or there != kernel, "equal to a kernel with other parameters.")
    _require(len(kernel.theta_names) == len(theta), "theta_names and theta differ in length.")


def _clone(case: _Case) -> None:
    _require(clone(case.kernel) == case.kernel, "sklearn.base.clone returns another kernel.")


def _pickle(case: _Case) -> None:
    nodes = list(_nodes(case.kernel))
    if any(_holds_function(node) or not _is_importable(type(node)) for node in nodes):
        return
    copy = pickle.loads(pickle.dumps(case.kernel))
    _require_equal(copy, case, "the pickled kernel")


def _repr(case: _Case) -> None:
    nodes = list(_nodes(case.kernel))
    if any(_holds_function(node) or isinstance(node, NodeKernel) for node in nodes):
        return
    import mercer

    names = {name: getattr(mercer, name) for name in mercer.__all__}
    names |= {type(node).__name__: type(node) for node in nodes}
    try:
        copy = eval(repr(case.kernel), names)
    except Exception as error:
        raise _CheckError(f"the repr cannot be evaluated ({error}).") from error
    _require_equal(copy, case, "the kernel rebuilt from its repr")


def _require_equal(copy: Any, case: _Case, what: str) -> None:
    _require(copy == case.kernel, f"{what} is not equal: {copy!r}.")
    _require(hash(copy) == hash(case.kernel), f"{what} has another hash.")
    _require(np.array_equal(copy(case.rows), case.square), f"{what} gives another matrix.")


_CHECKS: dict[str, Callable[[_Case], None]] = {
    "symmetry": _symmetry,
    "positive semi-definiteness": _positive_semidefinite,
    "the diagonal": _diagonal,
    "blocks": _blocks,
    "products": _products,
    "the NumPy reference": _reference,
    "the gradient in the parameters": _parameter_gradient,
    "the gradient in the inputs": _input_gradient,
    "threads": _thread_count,
    "theta": _theta,
    "clone": _clone,
    "pickle": _pickle,
    "repr": _repr,
}


def _nodes(kernel: Any) -> Iterator[Any]:
    """The kernel and all kernels inside it."""
    yield kernel
    for _, child in kernel._tree.levels:
        yield from _nodes(child)


def _is_unfused(kernel: Kernel) -> bool:
    """Whether Python evaluates a part of the kernel."""
    return any(node.op == "external" for node in walk((kernel.expression,)))


def _holds_function(node: Any) -> bool:
    return any(
        callable(declared(node, name)) and not isinstance(declared(node, name), Kernel)
        for name in node._declarations
    )


def _is_importable(cls: type) -> bool:
    target: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        target = getattr(target, name, None)
    return target is cls


def _double(data: Any) -> Any:
    """Convert float32 data to float64, because float32 is too coarse for difference quotients."""
    return data.astype(np.float64) if getattr(data, "dtype", None) == np.float32 else data


def _cast(data: Any, dtype: type) -> Any:
    """Numeric arrays in another floating type; None for anything else."""
    is_numeric = isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "fiu"
    return data.astype(dtype) if is_numeric else None


def _example(kernel: Kernel, rng: np.random.Generator, n: int) -> Any:
    """A few random points of a type and number of columns that the kernel takes."""
    first: MercerError | None = None
    for width in (3, 2, 1, *range(4, 33)):
        X = _made_up(kernel, rng, n, width)
        try:
            _try(kernel, X)
        except (DataError, ParameterError) as error:
            first = first or error
        else:
            return X
    assert first is not None
    raise first


def _try(kernel: Kernel, X: Any) -> None:
    """Raise an error if the kernel does not take such data; the checks report other errors."""
    kernel = kernel.resolve(X)
    points = kernel.prepare(X)
    try:
        kernel(points)
    except ParameterError:
        raise
    except MercerError:
        return


def _made_up(kernel: Kernel, rng: np.random.Generator, n: int, width: int) -> Any:
    tags = kernel.input_tags()
    if tags["pairwise"]:
        factor = rng.standard_normal((n, n))
        return factor @ factor.T
    if tags["string"] and not tags["two_d"]:
        lengths = rng.integers(2, 12, n)
        return ["".join(rng.choice(list("ACGT"), length)) for length in lengths]
    matrices = [k.matrix for k in _nodes(kernel) if isinstance(k, Precomputed)]
    if matrices or any(isinstance(k, Categorical) for k in _nodes(kernel)):
        levels = min([3, *(len(matrix) for matrix in matrices)])
        return rng.integers(0, levels, (n, width)).astype(float)
    low = 0.0 if tags["positive_only"] else -1.0
    return rng.uniform(low, 1.0, (n, width))


def _like(kernel: Kernel, X: Any, rng: np.random.Generator) -> Any:
    """A smaller collection of points like X."""
    if kernel.input_tags()["pairwise"]:
        return kernel.prepare(X)[::2]
    return _made_up(kernel, rng, 7, X.shape[1] if isinstance(X, np.ndarray) else 1)
