"""The kernel contract: what every kernel is, and what follows from its expression.

A kernel is its mathematics, one short method, and its declared parameters. Tracing that method
gives an expression; everything else (matrices, products, gradients, diagonals) follows from the
expression.
"""

from __future__ import annotations

import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from mercer import checks
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, NoFeatureMapError, ParameterTypeError
from mercer.kernels.heuristics import Scatter, bounded, heuristic_length
from mercer.kernels.parameters import plain
from mercer.kernels.points import Points
from mercer.kernels.tree import Parameterised, with_children
from mercer.kernels.views import EVERYTHING, Columns, Numbers, View
from mercer.parallel import cached_property
from mercer.program import engine, reference
from mercer.program.expression import Expr
from mercer.program.pairs import Pairs
from mercer.program.specialise import floating_type, reads

if TYPE_CHECKING:
    from mercer.gram import Gram

ScatterOf = Callable[[View], Scatter]
K = TypeVar("K", bound="Kernel")


def _algebra(operation: str, *operands: Any) -> Kernel:
    """What an operation makes of kernels; it is built on their class, so it is imported late."""
    from mercer.kernels import algebra

    made: Kernel = getattr(algebra, operation)(*operands)
    return made


@dataclass(frozen=True)
class Scope:
    """Where a kernel stands in a composition: its view of the data, the path of its parameters."""

    view: View = EVERYTHING
    prefix: str = ""

    def path(self, name: str) -> str:
        """The full path of a parameter."""
        return f"{self.prefix}{name}"

    def then(self, step: Any) -> Scope:
        """The scope after a step, such as a selection of columns."""
        return Scope(self.view.then(step), self.prefix)


#: The scope of a kernel that is inside no other.
EVERYWHERE = Scope()


def scoped_children(kernel: Kernel, scope: Scope) -> list[tuple[Kernel, Scope]]:
    """The children of a composition, each with its scope."""
    children: list[tuple[Kernel, Scope]] = []
    for level, child in kernel._tree.levels:
        inner = Scope(scope.view, f"{scope.prefix}{level}__") if level else scope
        children.append((child, inner if kernel._step is None else inner.then(kernel._step)))  # type: ignore[arg-type]
    return children


def _leaves(kernel: Kernel, scope: Scope) -> Iterator[tuple[Kernel, View]]:
    """The leaves of a composition, each with its view of the data."""
    if not kernel._child_names:
        yield kernel, kernel._view(scope)
        return
    for child, inner in scoped_children(kernel, scope):
        yield from _leaves(child, inner)


class Reader:
    """What a kernel reads of data: its leaves with their views, and programs for small arrays."""

    __slots__ = ("direct", "leaves", "may_have_features")

    def __init__(self, leaves: tuple[tuple[Kernel, View], ...]) -> None:
        self.leaves = leaves
        #: None if a leaf does not take all columns of any floats.
        self.direct: engine.Direct | None = engine.Direct()
        #: False if a leaf has no finite features: what is made of it has none either.
        self.may_have_features = True
        for leaf, view in leaves:
            if type(leaf)._features is Kernel._features:
                self.may_have_features = False
            numbers = isinstance(view.reader, Numbers) and not view.steps
            if not numbers or getattr(leaf, "non_negative", False):
                self.direct = None


#: What other parts of the library call and ``help`` does not list.
_MACHINERY = frozenset(("expression", "input_tags", "set_params"))
#: The special methods that ``help`` lists: values and the algebra.
_LISTED = frozenset(
    f"__{name}__" for name in ("call", "add", "radd", "mul", "rmul", "pow", "truediv")
)


def is_a_class(cls: type) -> str:
    """The sentence for a class in the place of a kernel."""
    return f"{cls.__name__} is a class of kernels and not a kernel; write {cls.__name__}()."


class _KernelType(ABCMeta):
    """The type of kernel classes: ``dir`` and ``help`` list what users call, and no machinery."""

    def _refuse(cls, other: Any) -> Any:
        raise ParameterTypeError(is_a_class(cls))

    __add__ = __radd__ = __mul__ = __rmul__ = __pow__ = __truediv__ = _refuse

    def __dir__(cls) -> list[str]:
        names = (name for name in super().__dir__() if name not in _MACHINERY)
        return [name for name in names if not name.startswith("_") or name in _LISTED]


class Kernel(Parameterised, metaclass=_KernelType):
    """A symmetric function of two points, as an immutable value.

    Subclass one of `Stationary`, `DotProduct`, `Coordinate`, `FeatureKernel` or `PairKernel` to
    write a kernel of your own. Kernels are equal when their parameters are equal; methods that
    change something return a new kernel.

    Examples
    --------
    >>> import mercer as mc
    >>> k = 2.0 * mc.RBF(length_scale=0.5) + mc.Linear()
    >>> k([[0.0], [1.0]]).round(3).tolist()
    [[2.0, 0.271], [0.271, 3.0]]
    >>> k.replace(rbf__length_scale=1.0)
    2.0 * RBF() + Linear()
    """

    #: An array times a kernel is refused by the kernel, not turned into an array of kernels.
    __array_ufunc__ = None

    #: What is known of Mercer's condition: True, False, or None when it is not known.
    psd: ClassVar[bool | None] = None

    #: Of a composition: whether it is indefinite where the kernel inside is.
    _undoable: ClassVar[bool] = False

    #: Of a composition: what a child sees of the data is the result of this step.
    _step: Any = None

    #: The distance whose typical size the heuristics for length_scale="..." find.
    _metric: ClassVar[str] = "euclidean"

    #: How tightly the repr binds: 0 for a sum, 1 for a product, 2 for a power, 3 for a name.
    _precedence: ClassVar[int] = 3

    @abstractmethod
    def _trace(self, scope: Scope) -> Expr:
        """Return the expression of this kernel in a scope."""

    @cached_property
    def expression(self) -> Expr:
        """The traced expression, shared by all executors and by kernels of the same structure."""
        return expression_in(self, Scope())

    @property
    def is_psd(self) -> bool | None:
        """Whether Mercer's condition holds, by closure rules; None when they do not tell.

        A composition of kernels is a kernel. A composition of other functions may be one too,
        unless its operation can be undone.
        """
        if not self._child_names:
            return self.psd
        for _, child in self._tree.levels:
            known: bool | None = child.is_psd  # type: ignore[attr-defined]
            if not known:
                return known if self._undoable else None
        return True

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Return the matrix of k(x, z) for all rows of X and of Z (of X again when left out).

        The columns of two data frames are matched by name, in the order of X. Of two single points,
        rows of numbers or strings, return the number k(x, z).
        """
        direct = self._reader.direct if type(X) is np.ndarray else None
        if direct is not None:
            matrix = direct.gram(X, Z)
            if matrix is not None:
                return matrix
        single = None if Z is None else _single_rows(self, X, Z)
        if single is not None:
            return self(*single).item()  # type: ignore[no-any-return]
        pairs = pairs_of(self, X, Z)
        if direct is not None:
            direct.bind(self.expression, pairs)
        return engine.gram(self.expression, pairs)

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for every row of X, without the matrix.

        Parameters
        ----------
        X : array-like, data frame, list or Points
            The points.

        Returns
        -------
        ndarray of shape (n,)
        """
        points = points_of(self, X)
        pairs = Pairs(points, points, self._tree.values, same=True, aligned=True)
        return reference.diagonal(self.expression, pairs)

    def gram(self, X: Any, Z: Any = None) -> Gram:
        """Return the Gram matrix as a lazy operator: ``K @ v`` without storing K.

        Parameters
        ----------
        X : array-like, data frame, list or Points
            The rows.
        Z : like X, optional
            The columns; X when left out.

        Returns
        -------
        Gram
            A `scipy.sparse.linalg.LinearOperator`.
        """
        from mercer.gram import Gram

        return Gram(self, pairs_of(self, X, Z, freeze=True))

    def prepare(self, X: Any, *, copy: bool = True) -> Points:
        """Read the data as this kernel needs them, once; every method accepts the result as data.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list
            The points.
        copy : bool, default=True
            Whether to keep a copy, which later writes to X do not reach.

        Returns
        -------
        Points
        """
        points = points_of(self, X, freeze=copy)
        for slot in reads(self.expression).slots:
            points.columns(slot.view)
        return points

    @cached_property
    def _reader(self) -> Reader:
        """What this kernel reads of data."""
        # A leaf is read by a copy of itself: an object that holds itself is not freed at once.
        kernel = self
        if not self._child_names:
            kernel = object.__new__(type(self))
            vars(kernel)["_values"] = self._values
        return Reader(tuple(_leaves(kernel, Scope())))

    def _view(self, scope: Scope) -> View:
        """What a leaf reads in a scope."""
        return scope.view

    def _check_points(self, points: Points, view: View) -> None:
        """Refuse points that this leaf cannot take."""

    def input_tags(self) -> dict[str, bool]:
        """Say what X may be: ``pairwise``, ``sparse``, ``string``, ``two_d``, ``positive_only``."""
        every = {"sparse": True, "two_d": True}  # what all kernels inside must take
        some = {"pairwise": False, "string": False, "positive_only": False}
        for _, child in self._tree.levels:
            tags = child.input_tags()  # type: ignore[attr-defined]
            for tag in every:
                every[tag] &= tags[tag]
            for tag in some:
                some[tag] |= tags[tag]
        return every | some

    def resolve(self, X: Any, sample_weight: Any = None) -> Self:
        """Replace rules such as ``length_scale="scale"`` by numbers computed from the data.

        Parameters
        ----------
        X : array-like, data frame or Points
            The points.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        Kernel
            The same kernel when nothing was unresolved.

        Examples
        --------
        >>> import mercer as mc
        >>> mc.RBF(length_scale="scale").resolve([[0.0], [2.0]])
        RBF(length_scale=0.7071067811865476)
        """
        if not self.unresolved():
            return self
        points = X if isinstance(X, Points) else Points(X, type(self).__name__, copy=False)
        weight = None if sample_weight is None else checked_weight(self, sample_weight, len(points))
        kernel = self
        while kernel.unresolved():
            kernel = resolved_by(kernel, lambda view: Scatter.of(points.columns(view), weight))
        return kernel

    def feature_map(self, X: Any) -> Any:
        """Return explicit features whose inner products are the kernel, where they are finite.

        Parameters
        ----------
        X : array-like, data frame, list or Points
            The points.

        Returns
        -------
        ndarray or csr_array of shape (n, p)
            ``Phi`` with ``Phi @ Phi.T`` equal to ``k(X)``.
        """
        return self._features(Scope(), points_of(self, X)).values

    def feature_names(self, X: Any) -> list[str]:
        """Return a name for each column of ``feature_map(X)``."""
        return list(self._features(Scope(), points_of(self, X)).feature_names)

    def _features(self, scope: Scope, points: Points) -> Columns:
        raise NoFeatureMapError(
            f"{type(self).__name__} has no finite feature map; use the kernel itself (in a model, "
            "another solver than Primal), or an approximate map such as mercer.RandomFourier."
        )

    def __add__(self, other: Any) -> Kernel:
        """Return the sum k + other; a number stands for a constant kernel."""
        return _algebra("add", self, other)

    def __radd__(self, other: Any) -> Kernel:
        """Return the sum other + k."""
        # sum(kernels) starts from the whole number 0, which is no term of the sum.
        return self if type(other) is int and other == 0 else _algebra("add", other, self)

    def __mul__(self, other: Any) -> Kernel:
        """Return the product with another kernel, or with a number >= 0."""
        return _algebra("multiply", self, other)

    def __rmul__(self, other: Any) -> Kernel:
        """Return the product of a number >= 0 and the kernel."""
        return _algebra("multiply", other, self)

    def __pow__(self, exponent: int) -> Kernel:
        """Return the power k ** exponent for a whole number >= 1."""
        return _algebra("power", self, exponent)

    def __sub__(self, other: Any) -> Kernel:
        return _algebra("refuse_difference", self, other)

    def __rsub__(self, other: Any) -> Kernel:
        return _algebra("refuse_difference", other, self)

    def __neg__(self) -> Kernel:
        return _algebra("multiply", -1.0, self)

    def __truediv__(self, other: Any) -> Kernel:
        """Return the kernel divided by a positive number."""
        return _algebra("divide", self, other)

    def exp(self) -> Kernel:
        """Return exp(k(x, z)): a kernel, because its Taylor series has positive coefficients."""
        return _algebra("Exponential", self)

    def polynomial(self, coefficients: Any) -> Kernel:
        """Return the kernel c0 + c1 k + c2 k^2 and so on, with non-negative coefficients.

        Parameters
        ----------
        coefficients : sequence of float
            ``[c0, c1, ...]``.
        """
        return _algebra("PolynomialOf", self, coefficients)

    def scaled_by(self, function: Any) -> Kernel:
        """Return f(x) k(x, z) f(z).

        Parameters
        ----------
        function : callable
            Takes the data (all rows) and returns one number for each row.
        """
        return _algebra("ScaledBy", self, function)

    def normalized(self) -> Kernel:
        """Return k(x, z) / sqrt(k(x, x) k(z, z)), the cosine in feature space; 0 for a zero."""
        return _algebra("normalized", self)

    def on(self, *columns: Any) -> Kernel:
        """Return the kernel on some of the columns.

        Parameters
        ----------
        *columns : int, slice or str
            Positions, slices, or names of data-frame columns.
        """
        return _algebra("on", self, columns)

    def standardized(self, centre: Any = "mean", width: Any = "deviation") -> Kernel:
        """Return the kernel of (x_j - centre_j) / width_j, in which missing numbers count as 0.

        Parameters
        ----------
        centre : "mean" or array of shape (d,)
            One number for each column; the means of the training rows by default.
        width : "deviation" or array of shape (d,)
            One number for each column; the standard deviations of the training rows by default.
        """
        return _algebra("Standardized", self, centre, width)

    def warp(self, function: Any) -> Kernel:
        """Return k(g(x), g(z)).

        Parameters
        ----------
        function : callable
            Takes the data (all rows) and returns as many rows.
        """
        return _algebra("Warped", self, function)


def _single_rows(kernel: Kernel, x: Any, z: Any) -> tuple[Any, Any] | None:
    """Two single points as collections of one row; None if they are collections already."""
    if isinstance(x, str) and isinstance(z, str):
        return ([x], [z]) if kernel.input_tags()["string"] else None
    # Kernels of other objects take a vector as a collection of numbers.
    if not (_is_vector(x) and _is_vector(z)) or not any(
        isinstance(view.reader, Numbers) for _, view in kernel._reader.leaves
    ):
        return None
    return np.asarray(x)[None], np.asarray(z)[None]


def _is_vector(x: Any) -> bool:
    """Whether data are a row of numbers."""
    if isinstance(x, np.ndarray):
        return x.ndim == 1 and x.dtype.kind in "biuf"
    return isinstance(x, list | tuple) and bool(x) and checks.is_number(x[0])


def validated(kernel: Kernel, X: Any, owner: Any = None, *, copy: bool = True) -> Points:
    """Prepare X on behalf of an estimator, whose name errors begin with.

    Without a copy, only the columns that the leaves check are read.
    """
    try:
        return kernel.prepare(X) if copy else points_of(kernel, X)
    except DataError as error:
        if owner is None:
            raise
        # The owner is one: an estimator, or a kernel by itself.
        message = re.sub(r"^\w+: ", "", str(error))
        raise type(error)(f"{type(owner).__name__}: {message}") from None


def points_of(kernel: Kernel, X: Any, freeze: bool = False) -> Points:
    """The data as points that each leaf of the kernel can read; frozen ones are a copy of X."""
    points = X if isinstance(X, Points) else Points(X, type(kernel).__name__, copy=False)
    if freeze and points is not X:
        points.freeze()
    if len(points) == 0:
        raise DataError(
            "Found array with 0 sample(s) while a minimum of 1 is required by "
            f"{type(kernel).__name__}; pass at least one row."
        )
    for leaf, view in kernel._reader.leaves:
        leaf._check_points(points, view)
    return points


def pairs_of(kernel: Kernel, X: Any, Z: Any = None, freeze: bool = False) -> Pairs:
    """All pairs of a row of X with a row of Z, or of X when Z is left out."""
    values = kernel._tree.values
    rows = points_of(kernel, X, freeze)
    if Z is None:
        return Pairs(rows, rows, values, same=True)
    return Pairs(rows, points_of(kernel, Z, freeze).ordered_like(rows), values)


def value_type(kernel: Kernel, points: Points) -> np.dtype[Any]:
    """The type of kernel values: float32 where all that the kernel reads is, else float64."""
    return floating_type(kernel.expression, pairs_of(kernel, points))


def checked_weight(kernel: Kernel, sample_weight: Any, n: int) -> Array:
    """Weights of the rows as an array, if they are finite, >= 0 and not all 0."""
    try:
        weight = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError):
        weight = np.asarray(np.nan)
    usable = weight.shape == (n,) and np.isfinite(weight).all() and (weight >= 0).all()
    if not usable or not weight.any():
        raise DataError(
            f"{type(kernel).__name__}: sample_weight = {sample_weight!r:.60} does not hold one "
            f"finite weight >= 0 for each of the {n} rows, not all of them 0; pass such "
            "weights, or None."
        )
    return weight


def resolved_by(kernel: K, scatter_of: ScatterOf, scope: Scope = EVERYWHERE) -> K:
    """The kernel with numbers in place of rules, from a summary of what each kernel inside reads.

    What is inside a kernel with such a rule waits for the next call, because it sees other data.
    """
    waiting = _waiting(kernel)
    if waiting:
        scatter = scatter_of(kernel._view(scope))
        # A kernel whose rules are not about a length-scale has a method for them.
        rule = getattr(kernel, "_from_data", partial(heuristic_length, kernel._metric))
        values = {name: rule(plain(stored), scatter) for name, stored in waiting.items()}
        return kernel.replace(**{n: bounded(waiting[n], value) for n, value in values.items()})
    if not kernel.unresolved():
        return kernel
    inside = scoped_children(kernel, scope)
    return with_children(kernel, [resolved_by(child, scatter_of, s) for child, s in inside])


def unresolved_views(kernel: Kernel) -> list[View]:
    """What is read by the kernels inside whose rules `resolved_by` replaces."""
    return list(dict.fromkeys(_waiting_views(kernel, Scope())))


def _waiting(kernel: Kernel) -> dict[str, Any]:
    """The parameters of a kernel itself, without its children, that hold a rule."""
    entries = kernel._tree.entries
    return {name: entries[name].stored for name in kernel._own_names if entries[name].is_unresolved}


def _waiting_views(kernel: Kernel, scope: Scope) -> Iterator[View]:
    if _waiting(kernel):
        yield kernel._view(scope)
    elif kernel.unresolved():
        for child, inner in scoped_children(kernel, scope):
            yield from _waiting_views(child, inner)


def expression_in(kernel: Kernel, scope: Scope) -> Expr:
    """The expression of a kernel in a scope, shared by kernels of the same structure."""
    structure = None if scope.view.steps else _structure(kernel)
    if structure is None:
        return kernel._trace(scope)
    expression = _expressions.get((structure, scope))
    if expression is None:
        expression = kernel._trace(scope)
        if len(_expressions) >= _MOST_EXPRESSIONS:
            _expressions.clear()
        _expressions[structure, scope] = expression
    return expression


def _structure(kernel: Kernel) -> Hashable | None:
    """What the expression of a built-in kernel depends on; None for others, and for functions.

    Values of learned parameters are leaves of the expression, so that only their shapes count. The
    methods of a kernel that is not mercer's own may depend on anything.
    """
    if not type(kernel).__module__.startswith("mercer."):
        return None
    parts: list[Hashable] = [type(kernel)]
    for name, declaration in kernel._declarations.items():
        value = kernel._values[name]
        if not declaration.concrete:
            parts.append(() if type(value) is float else np.shape(plain(value)))
        elif name in kernel._child_names:
            inside = tuple(map(_structure, value if isinstance(value, tuple) else (value,)))
            if None in inside:
                return None
            parts.append(inside)
        elif isinstance(value, int | float | str) or (
            isinstance(value, tuple) and all(isinstance(item, int | str) for item in value)
        ):
            parts.append(value)
        else:
            return None
    return tuple(parts)


#: Expressions by structure and scope, each with what is compiled from it.
_expressions: dict[Hashable, Expr] = {}
#: Number of expressions at which the table is emptied.
_MOST_EXPRESSIONS = 256
