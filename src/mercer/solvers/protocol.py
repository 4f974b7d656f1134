"""What the objects that a model takes as `solver` have in common: parameters."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from numbers import Number
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

from mercer.exceptions import DataError, ParameterError
from mercer.kernels.points import Points

if TYPE_CHECKING:
    from mercer.solvers.task import PathAnswer, RidgeAnswer, RidgeTask


class Settings:
    """Base of solvers: frozen data classes, the fields of which scikit-learn sees as parameters.

    They are equal if their parameters are, arrays and transformers among them by what they hold: a
    subclass is declared with ``eq=False``, since data classes compare otherwise.

    Examples
    --------
    >>> import mercer as mc
    >>> solver = mc.solvers.NystromSolver(n_landmarks=100)
    >>> solver.replace(n_landmarks=200).n_landmarks, solver.n_landmarks
    (200, 100)
    >>> model = mc.KernelRidge(solver=solver).set_params(solver__n_landmarks=50)
    >>> model.solver.n_landmarks
    50
    """

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Refuse parameters that are wrong whatever the data are.

        Parameters
        ----------
        owner : str
            The name of the model, for messages.
        also : tuple of str
            What else its landmarks may be, beside what every model takes.
        """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, and those of a transformer among them.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of transformers, such as ``map__n_components``.

        Returns
        -------
        dict
            Values by name.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        inner = [(name, value) for name, value in own.items() if _has_parameters(value)]
        for name, value in inner if deep else []:
            own |= {f"{name}__{path}": part for path, part in value.get_params().items()}
        return own

    def replace(self, **params: Any) -> Self:
        """A copy with other values of some parameters.

        Parameters
        ----------
        **params
            Values by name.

        Returns
        -------
        Self
            The copy; this solver is left as it is.
        """
        known = self.get_params()
        for name in params:
            outer = name.partition("__")[0]
            if name not in known and outer != name and outer in known:
                self._require_parameters(outer, params.get(outer, known[outer]), name)
            elif name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}? " if close else ""
                raise ParameterError(
                    f"{type(self).__name__}: {name} is not a parameter; {hint}the parameters are "
                    f"{', '.join(known) or 'none'}."
                )
        own = {name: value for name, value in params.items() if "__" not in name}
        inner: dict[str, dict[str, Any]] = {}
        for path in params.keys() - own.keys():
            name, _, rest = path.partition("__")
            inner.setdefault(name, {})[rest] = params[path]
        for name, values in inner.items():
            own[name] = clone(own.get(name, getattr(self, name))).set_params(**values)
        return replace(self, **own)  # type: ignore[type-var]

    def _require_parameters(self, name: str, value: Any, path: str) -> None:
        if not _has_parameters(value):
            raise ParameterError(
                f"{type(self).__name__}: {name} = {value!r:.80} has no parameters, so that {path} "
                f"cannot be set; pass an object as {name} first, such as "
                f"{type(self).__name__}({name}=...)."
            )

    def set_params(self, **params: Any) -> NoReturn:
        """Refuse: the object is immutable. Use `replace`, which returns a new one.

        Parameters
        ----------
        **params
            Values by name.
        """
        raise AttributeError(
            f"{type(self).__name__} is immutable, so set_params({', '.join(params)}) is not "
            "possible; use replace(...), which returns a new object."
        )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _alike(self.get_params(deep=False), other.get_params(deep=False))

    def __hash__(self) -> int:
        # Of arrays and transformers nothing: equal objects have equal hashes all the same.
        plain = [v for v in self.get_params(deep=False).values() if isinstance(v, str | Number)]
        return hash((type(self), *plain))

    def __sklearn_clone__(self) -> Self:
        own = {name: clone(value, safe=False) for name, value in self.get_params(False).items()}
        return replace(self, **own)  # type: ignore[type-var]


def _has_parameters(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


def _alike(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal: arrays, data and transformers by content."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if type(one) is type(other):
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
        if isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(_alike, one, other))
        if isinstance(one, BaseEstimator):
            return _alike(one.get_params(deep=False), other.get_params(deep=False))
        if isinstance(one, Points):
            return _alike(one.data, other.data)
        if sp.issparse(one):
            return one.shape == other.shape and not (one != other).nnz
        if hasattr(one, "equals"):  # data frames and series
            return bool(one.equals(other))
    same = one == other
    return bool(same) if isinstance(same, bool | np.bool_) else False


class RidgeSolver(Settings, ABC):
    """Base of solvers that are given a ridge task and do the rest."""

    def ridge(self, task: RidgeTask) -> RidgeAnswer:
        """Solve a ridge task.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        RidgeAnswer
            Coefficients over rows or landmarks, those of features too if there are some.
        """
        self.check(task.owner)
        with _in_range(task.owner):
            return self._ridge(task)

    def path(self, task: RidgeTask) -> PathAnswer:
        """Solve a ridge task at each of its alphas.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        PathAnswer
            The same at each alpha.
        """
        self.check(task.owner)
        with _in_range(task.owner):
            return self._path(task)

    @abstractmethod
    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        """The answer."""

    @abstractmethod
    def _path(self, task: RidgeTask) -> PathAnswer:
        """The answers."""


@contextmanager
def _in_range(owner: str) -> Iterator[None]:
    """Let sums that overflow be an error of the data, in the name of the model."""
    try:
        yield
    except OverflowError as error:
        raise DataError(f"{owner}: {error}.") from None
