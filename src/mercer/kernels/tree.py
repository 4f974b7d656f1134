"""Immutable objects with declared parameters, and the tree that they form when they nest.

`Parameterised` is the base of kernels. It knows parameters, paths and theta, and nothing about
data or mathematics.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from mercer.exceptions import ParameterError, UnresolvedParameterError
from mercer.kernels.entries import ParameterEntry
from mercer.kernels.parameters import Declaration, Part
from mercer.kernels.values import Array, Bounded, Fixed, digest, read_only, same, show

__all__ = ["Parameterised", "kind", "named_children"]

# Compositions are walked recursively, with a handful of calls for each level: deeper ones would run
# into Python's own limit somewhere inside a fit.
_DEEPEST = 100

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
    repr, pickle, and the parameter vector ``theta``. A subclass that holds others keeps them in
    a `Part`, and overrides ``_children`` and ``_with_children``. One with an ``__init__`` of its
    own ends it with ``self._initialise(**values)``.

    Examples
    --------
    >>> from mercer.kernels.parameters import Positive
    >>> from mercer.kernels.values import Fixed
    >>> from mercer.kernels.tree import Parameterised
    >>> class Cauchy(Parameterised):
    ...     length_scale = Positive(1.0, per_column=True)
    ...     alpha = Positive(1.0)
    >>> k = Cauchy(length_scale=[1, 2], alpha=Fixed(0.5))
    >>> k
    Cauchy(length_scale=[1.0, 2.0], alpha=Fixed(0.5))
    >>> k.theta_names
    ['length_scale[0]', 'length_scale[1]']
    >>> k.replace(alpha=2).declared("alpha")
    Fixed(2.0)
    """

    _declarations: ClassVar[Mapping[str, Declaration]] = MappingProxyType({})
    _kind: ClassVar[str | None] = None
    __signature__: ClassVar[inspect.Signature]
    _values: dict[str, Any] = cast(dict[str, Any], _Uninitialised())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._declarations = MappingProxyType(_collect(cls))
        cls.__signature__ = _signature(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        positional = _positional_names(type(self))
        if len(args) > len(positional):
            raise ParameterError(
                f"{_owner(self)}: {len(args)} positional values were given, and there are "
                f"{len(positional)} to take; the parameters are {_listed(self._declarations)}."
            )
        values = dict(zip(positional, args, strict=False))
        for name in values.keys() & kwargs.keys():
            raise ParameterError(
                f"{_owner(self)}: {name} is given twice, by position and by name; pass it once."
            )
        self._initialise(**values, **kwargs)

    def _initialise(self, **values: Any) -> None:
        """Validate and store the values, and the defaults of those that are not given."""
        for name in values:
            if name not in self._declarations:
                raise _unknown(self, name, self._declarations)
        stored = {}
        for name, declaration in self._declarations.items():
            given = values.get(name, declaration.default)
            if name not in values and declaration.required:
                raise ParameterError(
                    f"{_owner(self)}: {name} is required and was not given; pass {name}=..."
                )
            stored[name] = declaration.validate(_owner(self), given)
        object.__setattr__(self, "_values", stored)
        self._check_depth()
        self._check()

    def _check_depth(self) -> None:
        if self._depth > _DEEPEST:
            raise ParameterError(
                f"{_owner(self)}: the composition is {self._depth} kernels deep, more than the "
                f"{_DEEPEST} allowed; write Sum(*kernels) or Product(*kernels), which hold many "
                "kernels side by side, or one function in place of a chain of them."
            )

    @cached_property
    def _depth(self) -> int:
        """How many objects are nested in each other, this one included."""
        return 1 + max((child._depth for _, child in self._children()), default=0)

    def _check(self) -> None:
        """Check the rules that tie several parameters together; a subclass may override it."""

    def _with_values(self, **values: Any) -> Self:
        """Return a copy with stored values replaced by anything, without validation."""
        new = object.__new__(type(self))
        object.__setattr__(new, "_values", {**self._values, **values})
        return new

    # ------------------------------------------------------------------------- value semantics

    def __setattr__(self, name: str, value: object) -> NoReturn:
        _ = self._values  # an __init__ that has not called ours is told so
        raise AttributeError(
            f"{_owner(self)} is immutable, so {name} cannot be set; "
            f"use replace({name}=...), which returns a new object."
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{_owner(self)} is immutable, so {name} cannot be deleted; "
            "use replace(...), which returns a new object."
        )

    def set_params(self, **params: Any) -> NoReturn:
        """Refuse: the object is immutable. Use `replace`, which returns a new one."""
        raise AttributeError(
            f"{_owner(self)} is immutable, so set_params({', '.join(params)}) is not possible; "
            "use replace(...), which returns a new object."
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameterised):
            return NotImplemented
        if self is other:
            return True
        return type(self) is type(other) and all(
            same(value, other._values[name]) for name, value in self._values.items()
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), digest(tuple(self._values.values()))))

    def __repr__(self) -> str:
        shown = (
            f"{name}={show(stored)}"
            for name, stored in self._values.items()
            if not self._is_default(name, stored)
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _is_default(self, name: str, stored: object) -> bool:
        declaration = self._declarations[name]
        if declaration.required:
            return False
        return same(stored, declaration.validate(_owner(self), declaration.default))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self._values)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    # ---------------------------------------------------------------------------------- the tree

    def _children(self) -> tuple[tuple[str, Parameterised], ...]:
        """Return (name, child) pairs; the name "" adds no level to paths."""
        return ()

    def _with_children(self, children: tuple[Any, ...]) -> Self:
        """Return a copy that holds ``children`` in place of its own, in the same order."""
        raise NotImplementedError(f"{_owner(self)} has _children but no _with_children")

    @cached_property
    def _levels(self) -> tuple[tuple[str, Parameterised], ...]:
        """The children under the level that paths show: "" where a child adds none.

        A transparent child gets a level after all where its names would hide behind others.
        """
        taken = set(self._own_names)
        levels = []
        for name, child in self._children():
            heads = {path.partition("__")[0]: entry for path, entry in child._entries.items()}
            hidden = [entry for head, entry in heads.items() if head in taken]
            level = _class_kind(type(hidden[0].owner)) if not name and hidden else name
            taken |= {level} if level else heads.keys()
            levels.append((level, child))
        return tuple(levels)

    @property
    def _own_names(self) -> list[str]:
        """The names of the parameters that this node declares itself."""
        return [name for name, d in self._declarations.items() if not isinstance(d, Part)]

    @cached_property
    def _entries(self) -> dict[str, ParameterEntry]:
        entries = {
            name: ParameterEntry(name, self._declarations[name], self._values[name], self)
            for name in self._own_names
        }
        for level, child in self._levels:
            for entry in child._entries.values():
                path = _join(level, entry.path)
                entries[path] = ParameterEntry(path, entry.declaration, entry.stored, entry.owner)
        return entries

    @cached_property
    def _level_paths(self) -> list[str]:
        """The paths of whole children, as `replace` takes them."""
        paths = []
        for level, child in self._levels:
            paths += [level] if level else []
            paths += [_join(level, path) for path in child._level_paths]
        return paths

    def parameters(self) -> dict[str, ParameterEntry]:
        """Return every parameter of the tree by its path: this node's own, then its children's.

        Returns
        -------
        dict of str to ParameterEntry
        """
        return dict(self._entries)

    def declared(self, name: str) -> Any:
        """Return what is stored under one of this node's names, with `Fixed` or `Bounded`."""
        if name not in self._declarations:
            raise _unknown(self, name, self._declarations)
        return self._values[name]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the stored value of each parameter by its path.

        Parameters
        ----------
        deep : bool
            Whether to include the parameters of children.
        """
        entries = self._entries if deep else {name: self._entries[name] for name in self._own_names}
        return {path: entry.stored for path, entry in entries.items()}

    def replace(self, **params: Any) -> Self:
        """Return a copy with some parameters, or whole children, replaced.

        A plain value keeps the `Fixed` or the bounds of the one it replaces.

        Parameters
        ----------
        **params
            Values by path, such as ``length_scale=2.0`` or ``rbf__length_scale=2.0``; or a new
            child by the name of its level, such as ``rbf=Matern()``.
        """
        for path in params:
            if path not in self._entries and path not in self._level_paths:
                raise _unknown(self, path, [*self._entries, *self._level_paths])
            for level in self._level_paths:
                if level in params and path.startswith(f"{level}__"):
                    raise ParameterError(
                        f"{_owner(self)}: {level} is replaced as a whole and {path} is given too; "
                        f"set the parameter in the new {level}."
                    )
        return self._replace(params)

    def _replace(self, params: Mapping[str, Any]) -> Self:
        new = self
        old_children = tuple(child for _, child in self._levels)
        children = tuple(_replaced(level, child, params) for level, child in self._levels)
        if any(a is not b for a, b in zip(children, old_children, strict=True)):
            new = new._with_children(children)
            new._check_depth()
        values = {
            name: _like(
                self._values[name],
                self._declarations[name].validate(_owner(self), params[name]),
                f"{_owner(self)}: {name}",
            )
            for name in self._own_names
            if name in params
        }
        if values:
            new = new._with_values(**values)
            new._check()
        return new

    # -------------------------------------------------------------------------------- learning

    def unresolved(self) -> list[str]:
        """Return the paths that still hold a heuristic such as ``"median"``."""
        return [path for path, entry in self._entries.items() if entry.is_unresolved]

    def _require_resolved(self) -> None:
        for path in self.unresolved():
            raise UnresolvedParameterError(
                f"{_owner(self)}: {path} = {self._entries[path].value!r} is not resolved into a "
                "number yet; call resolve(X), fit an estimator, or pass a number "
                f"(for example {path}=1.0)."
            )

    @property
    def _free_entries(self) -> list[ParameterEntry]:
        self._require_resolved()
        return [entry for entry in self._entries.values() if entry.free.any()]

    @property
    def theta(self) -> Array:
        """The free parameters under their unconstrained transforms: a read-only vector."""
        thetas = [entry.theta for entry in self._free_entries]
        theta: Array = read_only(np.concatenate([np.empty(0), *thetas]))
        return theta

    @property
    def theta_bounds(self) -> Array:
        """The bounds of theta, one row (low, high) for each entry; infinite where there is none."""
        bounds = [entry.bounds for entry in self._free_entries]
        theta_bounds: Array = read_only(np.concatenate([np.empty((0, 2)), *bounds]))
        return theta_bounds

    @property
    def theta_names(self) -> list[str]:
        """The path of each entry of theta; entries of arrays as ``length_scale[2]``."""
        return [name for entry in self._free_entries for name in entry.names]

    def with_theta(self, theta: npt.ArrayLike) -> Self:
        """Return a copy with the free parameters at ``theta``.

        Parameters
        ----------
        theta : array-like of shape (k,)
            Unconstrained coordinates, in the order of ``theta_names``.
        """
        entries = self._free_entries
        sizes = [np.count_nonzero(entry.free) for entry in entries]
        try:
            vector = np.asarray(theta, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.asarray(np.nan)
        if np.isnan(vector).any():
            raise ParameterError(
                f"{_owner(self)}: theta = {theta!r} is not a vector of numbers; "
                f"pass one number for each of {_listed(self.theta_names)}."
            )
        if vector.shape != (sum(sizes),):
            raise ParameterError(
                f"{_owner(self)}: theta has shape {vector.shape} and not ({sum(sizes)},); "
                f"pass one number for each of {_listed(self.theta_names)}."
            )
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        moved = zip(entries, parts, strict=True) if entries else ()
        return self._replace({entry.path: entry.at_theta(part) for entry, part in moved})

    def parameter_values(self) -> dict[str, float | Array]:
        """Return the plain values of the continuous parameters by path, free or not."""
        self._require_resolved()
        return {
            path: entry.value
            for path, entry in self._entries.items()
            if not entry.declaration.concrete
        }

    def chain(self, gradients: Mapping[str, npt.ArrayLike]) -> Array:
        """Return the gradient in theta from gradients in the plain values.

        By the chain rule, df/dtheta = df/dvalue * dvalue/dtheta, for the free entries only.

        Parameters
        ----------
        gradients : mapping of str to array-like
            The gradient in the value of each free parameter, by path, in the shape of the value.
            Those of parameters that are not free are dropped.
        """
        for path in gradients:
            if path not in self._entries:
                raise _unknown(self, path, self._entries)
        parts = [entry.chained(gradients) for entry in self._free_entries]
        return np.concatenate([np.empty(0), *parts])


# ------------------------------------------------------------------------------ names of children


def kind(kernel: Parameterised) -> str:
    """Return the kind of the innermost kernel under transparent wrappers, in snake case."""
    children = kernel._children()
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


def _join(level: str, path: str) -> str:
    return f"{level}__{path}" if level else path


# ---------------------------------------------------------------------------- building a class


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
    if not declaration.required:
        declaration.validate(f"the default in class {cls.__name__}", declaration.default)


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


def _unpickle(cls: type[T], values: dict[str, Any]) -> T:
    """Build an object from stored values; pickled arrays come back writeable, so freeze them."""
    new = object.__new__(cls)
    object.__setattr__(new, "_values", {name: read_only(v) for name, v in values.items()})
    return new


# --------------------------------------------------------------------------------- small helpers


def _replaced(level: str, child: Parameterised, params: Mapping[str, Any]) -> Parameterised:
    if level and level in params:
        new = params[level]
        if not isinstance(new, Parameterised):
            raise ParameterError(
                f"{_owner(child)}: {level} = {new!r} is not a kernel; pass a kernel, or set a "
                f"parameter by its path (such as {level}__{next(iter(child._entries), 'name')})."
            )
        return new
    prefix = _join(level, "")
    within = {path.removeprefix(prefix): v for path, v in params.items() if path.startswith(prefix)}
    known = child._entries.keys() | set(child._level_paths)
    within = {path: v for path, v in within.items() if path in known}
    return child._replace(within) if within else child


def _like(old: Any, new: Any, subject: str) -> Any:
    """Wrap a plain new value as the old one was: `Fixed` and `Bounded` are sticky."""
    if isinstance(new, Fixed | Bounded):
        return new
    if isinstance(old, Fixed):
        return Fixed(new)
    if not isinstance(old, Bounded):
        return new
    try:
        return Bounded(new, old.low, old.high)
    except ParameterError:
        raise ParameterError(
            f"{subject} = {show(new)} does not satisfy the bounds that it was given, "
            f"{show(old.low)} <= value <= {show(old.high)}; pass a value inside them, or a Bounded "
            "value with bounds of its own."
        ) from None


def _owner(instance: Parameterised) -> str:
    return type(instance).__name__


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _unknown(instance: Parameterised, name: str, known: Iterable[str]) -> ParameterError:
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return ParameterError(
        f"{_owner(instance)}: {name} is not a parameter; {hint}the parameters are {_listed(known)}."
    )
