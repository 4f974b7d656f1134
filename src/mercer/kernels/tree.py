"""Immutable objects with declared parameters, and the tree that they form when they nest.

`Parameterised` is the base of kernels. It knows parameters, paths and theta, and nothing about
data or mathematics. The `Tree` of an object lists its parameters and those of the objects inside.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from mercer.arrays import Array
from mercer.checks import listed, unknown_attribute, unknown_name
from mercer.exceptions import ParameterError, UnknownAttributeError, UnresolvedParameterError
from mercer.kernels.parameters import (
    Bounded,
    Child,
    Children,
    Continuous,
    Declaration,
    Fixed,
    Mask,
    Part,
    abbreviate,
    digest,
    read_only,
    same,
    show,
)
from mercer.parallel import cached_property
from mercer.program.pairs import Values

# Depth of a composition. Compositions are walked recursively, with a handful of calls per level:
# deeper ones would run into Python's own limit somewhere inside a fit.
_DEEPEST = 100

# How far, relative to 1 + |bound|, theta may leave its bounds by rounding.
_ROUNDING = 1e-12

T = TypeVar("T", bound="Parameterised")


class _Uninitialised:
    """What stands in the place of the values until a constructor has stored them."""

    def __get__(self, instance: Parameterised | None, owner: type[Parameterised]) -> Any:
        if instance is None:
            return self
        raise ParameterError(
            f"{owner.__name__}: its __init__ sets the kernel up by itself, so that the parameters "
            "are not known; leave __init__ out and declare parameters as class attributes, such as "
            "width = mercer.Positive(1.0)."
        )


class Parameterised:
    """An immutable value object with declared parameters.

    A subclass declares parameters as class attributes and gets a constructor, equality, hash,
    repr, pickle, and the parameter vector ``theta``. A subclass that holds others declares them as
    a `Child` or as `Children`. One with an ``__init__`` of its own ends it with
    ``super().__init__(**values)``.
    """

    # What `__init_subclass__` finds out once for each class: the declarations by name, the values
    # to store for those that have a default, the names of parameters, and those of children.
    _declarations: ClassVar[Mapping[str, Declaration]] = MappingProxyType({})
    _defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    _own_names: ClassVar[tuple[str, ...]] = ()
    _child_names: ClassVar[tuple[str, ...]] = ()

    _kind: ClassVar[str | None] = None
    #: What to do in place of a parameter that has this name elsewhere.
    _elsewhere: ClassVar[Mapping[str, str]] = MappingProxyType({})
    __signature__: ClassVar[inspect.Signature]
    _values: dict[str, Any] = cast(dict[str, Any], _Uninitialised())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared, owner = _collect(cls), f"the default in class {cls.__name__}"
        cls._declarations = MappingProxyType(declared)
        cls._defaults = MappingProxyType(
            {n: d.validate(owner, d.default) for n, d in declared.items() if not d.required}
        )
        cls._own_names = tuple(n for n, d in declared.items() if not isinstance(d, Part))
        cls._child_names = tuple(n for n, d in declared.items() if isinstance(d, Child | Children))
        cls.__signature__ = _signature(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        values = _by_name(self, args, kwargs) if args else kwargs
        for name in values:
            if name not in self._declarations:
                raise _unknown(self, name, self._declarations)
        stored = {}
        for name, declaration in self._declarations.items():
            if name in values:
                stored[name] = declaration.validate(type(self).__name__, values[name])
            elif name in self._defaults:
                stored[name] = self._defaults[name]
            else:
                raise ParameterError(
                    f"{_owner(self)}: {name} is required and was not given; pass {name}=..."
                )
        object.__setattr__(self, "_values", stored)
        if self._child_names:
            _check_depth(self)
        self._check()

    def _check(self) -> None:
        """Check the rules that tie several parameters together; a subclass may override it."""

    if not TYPE_CHECKING:  # a checker would take any name as known

        def __getattr__(self, name: str) -> Any:
            """The value of a parameter inside a composition, by its path."""
            if name.startswith("_") or hasattr(type(self), name):  # or a property that raised
                return object.__getattribute__(self, name)
            entries = self._tree.entries
            if name in entries:
                return entries[name].value
            raise UnknownAttributeError(partial(unknown_attribute, self, name, entries))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        _ = self._values  # an __init__ that has not called ours is told so
        raise _immutable(self, f"{name} cannot be set; use replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise _immutable(self, f"{name} cannot be deleted; use replace(...)")

    def set_params(self, **params: Any) -> NoReturn:
        """Refuse: the object is immutable. Use `replace`, which returns a new one."""
        raise _immutable(self, f"set_params({', '.join(params)}) is not possible; use replace(...)")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameterised):
            return NotImplemented
        if self is other:
            return True
        return type(self) is type(other) and all(
            same(value, other._values[name]) for name, value in self._values.items()
        )

    def __hash__(self) -> int:
        return hash((type(self), digest(tuple(self._values.values()))))

    def __repr__(self) -> str:
        shown = (
            f"{name}={show(stored)}"
            for name, stored in self._values.items()
            if name not in self._defaults or not same(stored, self._defaults[name])
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __str__(self) -> str:
        return abbreviate(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self._values)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    __sklearn_clone__ = __deepcopy__

    @cached_property
    def _tree(self) -> Tree:
        """The parameters of this object and of those inside it."""
        return Tree(self)

    def parameters(self) -> dict[str, ParameterEntry]:
        """Return every parameter of the tree by its path: this node's own, then its children's.

        Returns
        -------
        dict of str to ParameterEntry
        """
        return dict(self._tree.entries)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the stored value of each parameter by its path.

        Parameters
        ----------
        deep : bool
            Whether to include the parameters of children.
        """
        if not deep:
            return {name: self._values[name] for name in self._own_names}
        return {path: entry.stored for path, entry in self._tree.entries.items()}

    def replace(self, **params: Any) -> Self:
        """Return a copy with some parameters, or whole children, replaced.

        A plain value keeps the `Fixed` or the bounds of the one it replaces.

        Parameters
        ----------
        **params
            Values by path, such as ``length_scale=2.0`` or ``rbf__length_scale=2.0``; or a new
            child by the name of its level, such as ``rbf=Matern()``.
        """
        entries, levels = self._tree.entries, self._tree.level_paths
        for path in params:
            if path not in entries and path not in levels:
                raise _unknown(self, path, [*entries, *levels])
            for level in levels:
                if level in params and path.startswith(f"{level}__"):
                    raise ParameterError(
                        f"{_owner(self)}: {level} is replaced as a whole and {path} is given too; "
                        f"set the parameter in the new {level}."
                    )
        new = _replaced(self, params)
        if self._child_names:
            _check_depth(new)
        return new

    def unresolved(self) -> list[str]:
        """Return the paths that still hold a heuristic such as ``"median"``."""
        return list(self._tree.unresolved)

    @property
    def theta(self) -> Array:
        """The free parameters under their unconstrained transforms: a read-only vector."""
        return _joined(np.empty(0), [entry.theta for entry in self._tree.free])

    @property
    def theta_bounds(self) -> Array:
        """The bounds of theta, one row (low, high) for each entry; infinite where there is none."""
        return _joined(np.empty((0, 2)), [entry.bounds for entry in self._tree.free])

    @property
    def theta_names(self) -> list[str]:
        """The path of each entry of theta; entries of arrays as ``length_scale[2]``."""
        return [name for entry in self._tree.free for name in entry.names]

    def with_theta(self, theta: npt.ArrayLike) -> Self:
        """Return a copy with the free parameters at ``theta``.

        Parameters
        ----------
        theta : array-like of shape (k,)
            Unconstrained coordinates, in the order of ``theta_names``.
        """
        free = self._tree.free
        ends = [0, *np.cumsum([np.count_nonzero(entry.free) for entry in free], dtype=int).tolist()]
        try:
            vector = np.asarray(theta, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.asarray(np.nan)
        shape = (ends[-1],)
        wrong = "" if vector.shape == shape else f" has shape {vector.shape} and not {shape}"
        if np.isnan(vector).any():
            wrong = f" = {theta!r} is not a vector of numbers"
        if wrong:
            raise ParameterError(
                f"{_owner(self)}: theta{wrong}; pass one number for each of "
                f"{listed(self.theta_names)}."
            )
        parts = zip(free, pairwise(ends), strict=True)
        return _replaced(self, {e.path: e.at_theta(vector[low:high]) for e, (low, high) in parts})


def declared(node: Parameterised, name: str) -> Any:
    """What is stored under one of a node's names, with `Fixed` or `Bounded`."""
    if name not in node._declarations:
        raise _unknown(node, name, node._declarations)
    return node._values[name]


def gradient_in_theta(node: Parameterised, gradients: Mapping[str, npt.ArrayLike]) -> Array:
    """The gradient in theta from those in the values, by path: df/dtheta by the chain rule.

    Gradients in parameters that are not free are dropped.
    """
    for path in gradients:
        if path not in node._tree.entries:
            raise _unknown(node, path, node._tree.entries)
    parts = [entry.chained(gradients) for entry in node._tree.free]
    return np.concatenate([np.empty(0), *parts])


@dataclass(frozen=True, eq=False)
class ParameterEntry:
    """One parameter of a tree: where it is, what may be stored there, and what is."""

    path: str  # the path from the root, levels joined by two underscores
    declaration: Declaration
    stored: Any  # the stored value, with its `Fixed` or `Bounded`
    value: Any  # the plain value
    owner: type[Parameterised]  # the class that declares the parameter
    is_unresolved: bool  # whether the value is a heuristic that waits for data

    @cached_property
    def free(self) -> Mask:
        """Which entries are learned: a boolean array in the shape of the value."""
        return self.declaration.free(self.stored)

    @property
    def theta(self) -> Array:
        """The free entries under the unconstrained transform, in row-major order."""
        assert isinstance(self.declaration, Continuous)
        value = np.asarray(self.value, dtype=np.float64)
        return self.declaration.to_theta(value[self.free])

    @property
    def bounds(self) -> Array:
        """The bounds of the free entries under the transform, one row (low, high) for each."""
        assert isinstance(self.declaration, Continuous)
        if not isinstance(self.stored, Bounded):
            return np.tile([-np.inf, np.inf], (int(np.count_nonzero(self.free)), 1))
        with np.errstate(divide="ignore"):
            return np.column_stack([self.declaration.to_theta(end) for end in self._ends()])

    def _ends(self) -> list[Array]:
        """The lower and upper bounds of the free entries."""
        ends = (self.stored.low, self.stored.high)
        return [np.broadcast_to(end, self.free.shape)[self.free] for end in ends]

    @property
    def names(self) -> list[str]:
        """The path of each free entry: ``path`` for a number, ``path[i]`` in an array."""
        if self.free.ndim == 0:
            return [self.path] if self.free else []
        indices = np.argwhere(self.free).tolist()
        return [f"{self.path}[{', '.join(map(str, index))}]" for index in indices]

    def at_theta(self, theta: Array) -> Any:
        """Return the plain value with its free entries at ``theta``."""
        assert isinstance(self.declaration, Continuous)
        theta = self._within_bounds(theta)
        value: Any = np.array(self.value, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            moved = self.declaration.from_theta(theta)
        if isinstance(self.stored, Bounded):
            low, high = self._ends()
            moved = np.clip(moved, low, high)
        # exp(log(x)) need not be x: what does not move keeps its value to the last bit.
        value[self.free] = np.where(theta == self.theta, value[self.free], moved)
        value = value if value.ndim else float(value)
        if not np.array_equal(self.declaration.free(value), self.free):
            raise ParameterError(
                f"{self.owner.__name__}: theta = {theta.tolist()} takes {self.path} out of "
                "the range of float64; pass theta closer to 0."
            )
        return value

    def _within_bounds(self, theta: Array) -> Array:
        if not isinstance(self.stored, Bounded):
            return theta
        ends = self.bounds
        low, high = ends.T
        slack = _ROUNDING * (1 + np.abs(np.where(np.isfinite(ends), ends, 0))).T
        if np.any((theta < low - slack[0]) | (theta > high + slack[1])):
            raise ParameterError(
                f"{self.owner.__name__}: theta = {theta.tolist()} takes {self.path} out of "
                f"its bounds {self.stored}; keep theta within theta_bounds."
            )
        return np.clip(theta, low, high)

    def chained(self, gradients: Mapping[str, npt.ArrayLike]) -> Array:
        """Return the gradient in theta, picked from gradients in the values by path."""
        assert isinstance(self.declaration, Continuous)
        owner = self.owner.__name__
        if self.path not in gradients:
            raise ParameterError(
                f"{owner}: the gradient in {self.path} is missing and the parameter is free; pass "
                "it, or hold the parameter with Fixed."
            )
        gradient = np.asarray(gradients[self.path], dtype=np.float64)
        if gradient.shape != self.free.shape:
            raise ParameterError(
                f"{owner}: the gradient in {self.path} has shape {gradient.shape} and the value "
                f"has shape {self.free.shape}; pass one number for each entry."
            )
        return np.asarray((gradient * self.declaration.slope(self.value))[self.free])


class Tree:
    """The parameters of an object and of the objects inside it, by path."""

    def __init__(self, root: Parameterised) -> None:
        # Neither the tree nor its entries hold the root, which holds the tree.
        self._owner = type(root).__name__
        self.entries: dict[str, ParameterEntry] = {}
        for name in root._own_names:
            declaration, stored = root._declarations[name], root._values[name]
            value = stored.value if isinstance(stored, Fixed | Bounded) else stored
            waits = isinstance(value, str) and isinstance(declaration, Continuous)
            self.entries[name] = ParameterEntry(name, declaration, stored, value, type(root), waits)
        #: The children under the level that paths show: "" where a child adds none.
        self.levels = _levels(root) if root._child_names else ()
        self.depth: int = 1
        for level, child in self.levels:
            self.depth = max(self.depth, 1 + child._tree.depth)
            for path, entry in child._tree.entries.items():
                if level:
                    path = f"{level}__{path}"
                    entry = replace(entry, path=path)
                self.entries[path] = entry
        #: The paths that hold a heuristic that waits for data.
        self.unresolved: list[str] = []
        for path, entry in self.entries.items():
            if entry.is_unresolved:
                self.unresolved.append(path)

    @cached_property
    def level_paths(self) -> list[str]:
        """The paths of whole children, as `replace` takes them."""
        paths = []
        for level, child in self.levels:
            paths += [level] if level else []
            paths += [f"{level}__{p}" if level else p for p in child._tree.level_paths]
        return paths

    @cached_property
    def free(self) -> list[ParameterEntry]:
        """The parameters with an entry in theta; refused while a parameter is unresolved."""
        if self.unresolved:
            raise self._unresolved_error()
        return [entry for entry in self.entries.values() if entry.free.any()]

    @cached_property
    def values(self) -> Values:
        """The plain values of the continuous parameters; refused while one is unresolved."""
        if self.unresolved:
            raise self._unresolved_error()
        values = Values()
        for path, entry in self.entries.items():
            if not entry.declaration.concrete:
                values[path] = entry.value
        return values

    def _unresolved_error(self) -> UnresolvedParameterError:
        path = self.unresolved[0]
        return UnresolvedParameterError(
            f"{self._owner}: {path} = {self.entries[path].value!r} is not resolved into a "
            "number yet; call resolve(X), fit an estimator, or pass a number "
            f"(for example {path}=1.0)."
        )


def _levels(root: Parameterised) -> tuple[tuple[str, Parameterised], ...]:
    """The children, each under the level of its paths.

    A `Child` has no level, unless its names would hide behind others.
    """
    taken = set(root._own_names)
    levels = []
    for name, child in _children(root):
        level, heads = name, set()
        for path, entry in child._tree.entries.items():
            head = path.partition("__")[0]
            heads.add(head)
            if not level and head in taken:
                level = _class_kind(entry.owner)
        taken |= {level} if level else heads
        levels.append((level, child))
    return tuple(levels)


def _children(node: Parameterised) -> list[tuple[str, Parameterised]]:
    """The children with their names; the name "" adds no level to paths."""
    children: list[tuple[str, Parameterised]] = []
    for name in node._child_names:
        value = node._values[name]
        if isinstance(node._declarations[name], Child):
            children.append(("", value))
        else:
            children += zip(named_children(value), value, strict=True)
    return children


def with_values(node: T, **values: Any) -> T:
    """Return a copy with stored values replaced by anything, without validation.

    The copy has nothing that was derived from the object. So the object can hold it, and be freed
    at once: an object that holds itself is freed late.
    """
    new = object.__new__(type(node))
    object.__setattr__(new, "_values", {**node._values, **values})
    return new


def with_children(node: T, children: Sequence[Parameterised]) -> T:
    """Return a copy that holds ``children`` in place of its own, in their order."""
    queue, values = iter(children), {}
    for name in node._child_names:
        old = node._values[name]
        values[name] = tuple(islice(queue, len(old))) if isinstance(old, tuple) else next(queue)
    return with_values(node, **values)


def _check_depth(node: Parameterised) -> None:
    if node._tree.depth > _DEEPEST:
        raise ParameterError(
            f"{_owner(node)}: the composition is {node._tree.depth} kernels deep, more than the "
            f"{_DEEPEST} allowed; write Sum(*kernels) or Product(*kernels), which hold many "
            "kernels side by side, or one function in place of a chain of them."
        )


def _replaced(node: T, params: Mapping[str, Any]) -> T:
    """Return a copy with the values, or whole children, at some paths from the node replaced."""
    new, values = node, {}
    for name in node._own_names:
        if name in params:
            value = node._declarations[name].validate(_owner(node), params[name])
            old = node._values[name]
            if isinstance(old, Fixed | Bounded) and not isinstance(value, Fixed | Bounded):
                value = _like(old, value, f"{_owner(node)}: {name}")
            values[name] = value
    children, changed = [], False
    for level, child in node._tree.levels:
        children.append(_replaced_child(level, child, params))
        changed = changed or children[-1] is not child
    if changed:
        new = with_children(new, children)
    if values:
        new = with_values(new, **values)
    if new is not node:
        new._check()
    return new


def _replaced_child(level: str, child: Parameterised, params: Mapping[str, Any]) -> Parameterised:
    if level and level in params:
        new = params[level]
        if not isinstance(new, Parameterised):
            path = f"{level}__{next(iter(child._tree.entries), 'name')}"
            raise ParameterError(
                f"{_owner(child)}: {level} = {new!r} is not a kernel; pass a kernel, or set a "
                f"parameter by its path (such as {path})."
            )
        return new
    prefix = f"{level}__" if level else ""
    tree, within = child._tree, {}
    for path, value in params.items():
        inside = path.removeprefix(prefix) if path.startswith(prefix) else ""
        if inside in tree.entries or inside in tree.level_paths:
            within[inside] = value
    return _replaced(child, within) if within else child


def _like(old: Fixed | Bounded, new: Any, subject: str) -> Fixed | Bounded:
    """Wrap a plain new value as the old one was: `Fixed` and `Bounded` are sticky."""
    if isinstance(old, Fixed):
        return Fixed(new)
    if np.shape(new) != np.shape(old.value) and np.ndim(old.low) + np.ndim(old.high):
        raise ParameterError(
            f"{subject} = {show(new)} has shape {np.shape(new)} and the bounds that it was given "
            f"have shape {np.shape(old.value)}; pass a value of that shape, or a Bounded value."
        )
    try:
        return Bounded(new, old.low, old.high)
    except ParameterError:
        raise ParameterError(
            f"{subject} = {show(new)} does not satisfy the bounds that it was given, "
            f"{show(old.low)} <= value <= {show(old.high)}; pass a value inside them, or a Bounded "
            "value with bounds of its own."
        ) from None


def kind(kernel: Parameterised) -> str:
    """Return the kind of the innermost kernel under transparent wrappers, in snake case."""
    children = _children(kernel)
    if len(children) == 1 and children[0][0] == "":
        return kind(children[0][1])
    return _class_kind(type(kernel))


def named_children(kernels: Iterable[Parameterised]) -> list[str]:
    """Return a name for each term of a sum or product: its kind, numbered where it repeats."""
    kinds = [kind(kernel) for kernel in kernels]
    total, seen = Counter(kinds), Counter[str]()
    names = []
    for name in kinds:
        seen[name] += 1
        names.append(name if total[name] == 1 else f"{name}_{seen[name]}")
    return names


def _class_kind(cls: type[Parameterised]) -> str:
    if cls._kind is not None:
        return cls._kind
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__)
    return re.sub(r"_+", "_", words).strip("_").lower()


def _collect(cls: type[Parameterised]) -> dict[str, Declaration]:
    """Collect declarations, bases first; whatever redeclares a name takes its place at the end."""
    declarations: dict[str, Declaration] = {}
    for base in reversed(cls.__mro__):
        for name, attribute in vars(base).items():
            declarations.pop(name, None)
            if isinstance(attribute, Declaration):
                declarations[name] = attribute
    for name, declaration in declarations.items():
        _check_declaration(cls, name, declaration)
    return declarations


def _check_declaration(cls: type[Parameterised], name: str, declaration: Declaration) -> None:
    if name.startswith("_") or "__" in name or hasattr(Parameterised, name):
        raise ParameterError(
            f"{cls.__name__}: {name} cannot be the name of a parameter, because it is private, "
            "contains a double underscore or is taken; choose another name."
        )
    if declaration.name != name:
        raise ParameterError(
            f"{cls.__name__}: {name} shares its declaration with {declaration.name}; "
            "write one declaration for each parameter."
        )


def _signature(cls: type[Parameterised]) -> inspect.Signature:
    if cls.__init__ is not Parameterised.__init__:
        own = inspect.signature(cls.__init__)
        return own.replace(parameters=list(own.parameters.values())[1:])
    parameters = []
    positional = set(_positional_names(cls))
    for name, declaration in cls._declarations.items():
        kinds = inspect.Parameter
        how = kinds.POSITIONAL_OR_KEYWORD if name in positional else kinds.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, how, default=declaration.default))
    return inspect.Signature(parameters)


def _positional_names(cls: type[Parameterised]) -> list[str]:
    """Return the names up to a required one that follows a default: Python's own rule."""
    names: list[str] = []
    seen_default = False
    for name, declaration in cls._declarations.items():
        if declaration.required and seen_default:
            break
        seen_default = seen_default or not declaration.required
        names.append(name)
    return names


def _by_name(
    instance: Parameterised, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The values by name of a call of the constructor with positional values."""
    positional = _positional_names(type(instance))
    if len(args) > len(positional):
        raise ParameterError(
            f"{_owner(instance)}: {len(args)} positional values were given, and there are "
            f"{len(positional)} to take; the parameters are {listed(instance._declarations)}."
        )
    values = dict(zip(positional, args, strict=False))
    for name in values.keys() & kwargs.keys():
        raise ParameterError(
            f"{_owner(instance)}: {name} is given twice, by position and by name; pass it once."
        )
    return values | kwargs


def _unpickle(cls: type[T], values: dict[str, Any]) -> T:
    """Build an object from stored values; pickled arrays come back writeable, so freeze them."""
    new = object.__new__(cls)
    object.__setattr__(new, "_values", {name: read_only(v) for name, v in values.items()})
    return new


def _joined(start: Array, parts: list[Array]) -> Array:
    joined: Array = read_only(np.concatenate([start, *parts]))
    return joined


def _immutable(instance: Parameterised, what: str) -> AttributeError:
    return AttributeError(
        f"{_owner(instance)} is immutable, so {what}, which returns a new object."
    )


def _owner(instance: Parameterised) -> str:
    return type(instance).__name__


def _unknown(instance: Parameterised, name: str, known: Iterable[str]) -> ParameterError:
    advice = instance._elsewhere.get(name, "")
    inner = name.removesuffix("_bounds")
    if inner in instance._declarations and inner != name:  # scikit-learn's way
        advice = f"write {inner}=mercer.Bounded(value, low, high), or mercer.Fixed(value)."
    return ParameterError(unknown_name(_owner(instance), name, known, advice))
