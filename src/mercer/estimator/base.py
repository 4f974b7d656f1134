"""What every estimator with a kernel shares: parameters, tags, validation, atomic fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from mercer.arrays import Array
from mercer.checks import NamedArguments, is_number, listed, require_weight_range
from mercer.exceptions import (
    DataError,
    DataTypeError,
    DataWarning,
    IndexingError,
    ParameterError,
    VersionWarning,
    as_data_errors,
    warn,
)
from mercer.kernels.base import Kernel, validated
from mercer.kernels.names import DEFAULTS, KernelLike, kernel_of, outline, require_no_arguments
from mercer.kernels.points import Points
from mercer.kernels.scikit_learn import converted, is_scikit_learns
from mercer.kernels.special import unlike_rows
from mercer.kernels.stationary import RBF
from mercer.kernels.table import is_mixed, table_kernel
from mercer.kernels.vector import unequal_columns
from mercer.parallel import cached_property, single_blas
from mercer.streams.blocks import without_columns
from mercer.streams.sources import Given, rows_of, source_of
from mercer.streams.stream_rows import StreamRows
from mercer.streams.targets import Targets

_PREFIX = "kernel__"
# The name of mercer's version in a pickled state.
_VERSION = "_mercer_version"
_SHOWN = 100
# Fewest rows among which are some that should be alike.
_FEWEST_ROWS = 100
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def shown(value: object) -> str:
    """The repr of a value for a message; that of a matrix would fill pages."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _version() -> str:
    from mercer import __version__  # which is set after this module is imported

    return __version__


def store(model: object, arguments: dict[str, Any]) -> None:
    """Keep the arguments of a constructor, its ``locals()``, under their names."""
    vars(model).update((name, value) for name, value in arguments.items() if name != "self")


class KernelEstimator(NamedArguments, BaseEstimator):
    """Base of estimators whose first parameter is a kernel.

    Kernels are immutable, and say themselves what data they take. So ``set_params(kernel__path=v)``
    puts a new kernel in the place of the old one, and scikit-learn's tags are the kernel's. The
    default kernel is an RBF with ``length_scale="columns"``, or the `table_kernel` of a data frame
    with other columns than numbers, or with missing values.
    """

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    #: Columns of data frames from which the fit took targets and weights.
    _named_columns: tuple[str, ...] = ()

    def __init__(
        self,
        kernel: KernelLike = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        self.kernel: Any = kernel
        self.degree: Any = degree
        self.gamma: Any = gamma
        self.coef0: Any = coef0

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this estimator and, under ``kernel__``, of its kernel.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the kernel's parameters, those of the default kernel too.

        Returns
        -------
        dict
            Values by name.
        """
        params: dict[str, Any] = super().get_params(deep)
        if deep and not isinstance(self.kernel, Kernel):
            # Not the names of scikit-learn's kernels, but those of what is made of them.
            params = {name: v for name, v in params.items() if not name.startswith(_PREFIX)}
            made = self._default_kernel() if self.kernel is None else None
            with suppress(ParameterError):  # the fit says what is wrong
                made = converted("", self.kernel) if is_scikit_learns(self.kernel) else made
            if made is not None:
                params |= {_PREFIX + path: value for path, value in made.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__path=value`` replaces the kernel by one with that value.

        What else cannot be changed is replaced alike, such as the solver by ``solver__name=value``.

        Parameters
        ----------
        **params
            Values by name.

        Returns
        -------
        self
            The estimator.
        """
        for name in self._immutable & self.get_params(deep=False).keys():
            prefix = f"{name}__"
            inner = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
            if inner:
                # Made before anything is set, so that a bad value changes nothing.
                base = self._replaceable(name, params.get(name, getattr(self, name)))
                params = {k: v for k, v in params.items() if not k.startswith(prefix)}
                params[name] = base.replace(**inner)
        super().set_params(**params)
        return self

    #: Parameters that are immutable objects with parameters of their own.
    _immutable: ClassVar[frozenset[str]] = frozenset({"kernel", "solver"})

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), _VERSION: _version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        written = state.get(_VERSION, _version())
        if written != _version():
            warn(
                f"{type(self).__name__}: it was saved by mercer {written}, and this is mercer "
                f"{_version()}, which may read it wrongly; fit the model again, or install "
                "the version that saved it.",
                VersionWarning,
            )
        super().__setstate__({name: v for name, v in state.items() if name != _VERSION})

    def _replaceable(self, name: str, given: object) -> Any:
        """The object in place of which ``set_params(name__path=value)`` puts another."""
        owner = type(self).__name__
        if isinstance(given, str) and name == "kernel":
            raise ParameterError(
                f"{owner}: kernel = {given!r} is a name, whose parameters are "
                f"{listed(self._kernel_arguments)}; set those, or pass kernel= an object such as "
                "mercer.RBF() first."
            )
        if name == "kernel":
            return self._kernel_or_default(given)
        if not hasattr(given, "replace") or isinstance(given, str | type):
            raise ParameterError(
                f"{type(self).__name__}: {name} = {shown(given)} has no parameters to set; pass "
                f"{name}= an object such as mercer.solvers.NystromSolver() first."
            )
        return given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kernel = tagged_kernel(self)
        if isinstance(kernel, Kernel):  # anything else is refused by fit, with a reason
            accepted = kernel.input_tags()
            tags.input_tags.pairwise = accepted["pairwise"]
            tags.input_tags.sparse = accepted["sparse"]
            tags.input_tags.string = accepted["string"]
            tags.input_tags.two_d_array = accepted["two_d"]
            tags.input_tags.positive_only = accepted["positive_only"]
        return tags

    def _default_kernel(self) -> Kernel:
        return RBF(length_scale="columns")

    def _default_kernel_for(self, X: Any) -> Kernel:
        """The default kernel, or one for a table that this would not take."""
        mixed = type(X) is not np.ndarray and is_mixed(X)
        return table_kernel(X) if mixed else self._default_kernel()

    #: The parameters of this estimator that belong to kernels which are named.
    _kernel_arguments: ClassVar[tuple[str, ...]] = ("degree", "gamma", "coef0")

    def _kernel_or_default(self, kernel: object, X: Any = None) -> Kernel:
        """The kernel that was given, by an object, a name or a function; or that for the data."""
        arguments = {}
        for name in self._kernel_arguments:
            value = getattr(self, name)
            if type(value) is not type(DEFAULTS[name]) or value != DEFAULTS[name]:
                arguments[name] = value
        if kernel is None:
            if arguments:
                require_no_arguments(type(self).__name__, None, arguments)
            return self._default_kernel_for(X)
        if isinstance(kernel, Kernel) and not arguments:
            return kernel
        if is_number(kernel) and hasattr(self, "alpha"):  # scikit-learn's first parameter
            raise ParameterError(
                f"{type(self).__name__}: kernel = {kernel!r} is a number, and the first parameter "
                f"is the kernel; write {type(self).__name__}(alpha={kernel!r})."
            )
        return kernel_of(type(self).__name__, kernel, X, **arguments)

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Forget the last fit; bring it back if this one fails or is interrupted."""
        before = dict(self.__dict__)
        for name in before:
            kept = isinstance(getattr(type(self), name, None), cached_property)
            if kept or (name.endswith("_") and not name.startswith("_")):
                delattr(self, name)
        try:
            with single_blas():
                yield
        except BaseException as error:
            if not (isinstance(error, KeyboardInterrupt) and self._keeps_partial_fit()):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    def _keeps_partial_fit(self) -> bool:
        """Whether an interrupted fit left a usable model behind."""
        return False

    def _validate_points(self, kernel: Kernel, X: Any, *, reset: bool, copy: bool = True) -> Points:
        """Let the kernel check the content, then check names and number of columns."""
        if self._named_columns and not reset:
            X = without_columns(X, self._named_columns)
        refused = None
        try:
            points = validated(kernel, X, owner=self, copy=copy)
            data = points.data
        except (ParameterError, IndexingError) as error:  # they may be for other columns
            refused, data = error, X
        plain = type(data) is np.ndarray and data.ndim == 2
        # Points of an array are those of a model that holds this one, and has warned of names.
        named = "feature_names_in_" in vars(self) and not (plain and isinstance(X, Points))
        if plain and reset and not named:
            self.n_features_in_ = data.shape[1]
        # Objects, such as series, bags and lists of tokens, have no columns: lengths may differ.
        listed = not reset if isinstance(data, np.ndarray) else isinstance(data, list)
        objects = listed and not kernel.input_tags()["two_d"]
        # The width is all that there is to check of an array without names.
        checked = plain and getattr(self, "n_features_in_", None) == data.shape[1]
        if not objects and (named or not checked):
            message = "Pass the columns that fit saw, in that order."
            with as_data_errors(type(self).__name__, message):
                # The targets have their own check; the word says that they are not looked at here.
                validate_data(self, data, "no_validation", reset=reset, skip_check_array=True)
        if refused is not None:
            raise refused
        warning = unequal_columns(kernel, points) if reset else ""
        if reset and not warning and len(points) >= _FEWEST_ROWS and _takes_kernel_as_given(self):
            warning = unlike_rows(kernel, points)
        if warning:
            warn(f"{type(self).__name__}: {warning}", DataWarning)
        return points

    @property
    def _known_row(self) -> Points | None:
        """A row that `fit` has seen, if one is kept."""
        points: Points | None = getattr(self, "points_", None)
        return points[:1] if points is not None and len(points) else None

    @property
    def _names_seen(self) -> Sequence[str] | None:
        """The names of the columns that `fit` has seen, in their order, if they had names."""
        names: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        return names

    def _stream(
        self,
        kernel: Kernel,
        X: Any,
        y: Any,
        sample_weight: Any,
        targets: Targets,
        *,
        whole: float = 0,
    ) -> tuple[StreamRows | None, Given]:
        """Rows that come in blocks, if X does, with columns checked; and what is given now."""
        given = Given(X, y, sample_weight)
        if type(X) is np.ndarray and X.flags.owndata:  # neither blocks nor mapped from a file
            return None, given
        rows, given = rows_of(type(self).__name__, kernel, given, targets, whole=whole)
        if rows is not None:
            validate_data(
                self, rows.first_row.data, "no_validation", reset=True, skip_check_array=True
            )
            if rows.survey.warning:
                warn(f"{type(self).__name__}: {rows.survey.warning}", DataWarning)
        return rows, given

    #: What an estimator that takes no blocks says to them, and what to do.
    _for_blocks = "the model keeps all rows; pass arrays, or take KernelRidge, which takes blocks"

    def _in_one_piece(self, X: Any, y: Any) -> Any:
        """X, unless it comes in blocks, which this estimator does not take."""
        owner = type(self).__name__
        source, X = source_of(owner, X, whole=np.inf, lists=y is None)
        if source is None:
            return X
        raise DataTypeError(f"{owner}: X comes in blocks, but {self._for_blocks}.")

    def _validate_targets(self, y: ArrayLike | None, n: int) -> Array:
        """Targets as floats of shape (n,) or (n, n_targets)."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "call fit(X, y)."
            )
        if np.isscalar(y) or (isinstance(y, np.ndarray) and not y.ndim):
            raise DataError(
                f"{type(self).__name__}: y = {y!r} is a single value; pass a list or an array, "
                "with one target for each row of X."
            )
        kind = getattr(getattr(y, "dtype", None), "kind", "")
        if kind == "c":
            raise DataError(
                f"{type(self).__name__}: y holds complex numbers, and targets are real; pass the "
                "real and the imaginary part as two targets."
            )
        if kind in ("m", "M"):
            raise DataError(
                f"{type(self).__name__}: y holds times, and targets are numbers; pass for example "
                "the number of days since the first of them."
            )
        plain = type(y) is np.ndarray and y.dtype in _FLOATS and y.ndim in (1, 2)
        if plain and y.size and len(y) == n and np.isfinite(y).all():  # type: ignore[union-attr, arg-type]
            return y  # type: ignore[return-value]
        remedy = "Pass finite numbers as y; drop the rows that have no target."
        # Sums of targets near the largest number overflow both ways before any is looked at.
        with as_data_errors(type(self).__name__, remedy), np.errstate(invalid="ignore"):
            targets: Array = check_array(
                y,
                ensure_2d=False,
                dtype=[np.float64, np.float32],
                input_name="y",
                allow_nd=True,
                estimator=self,
            )
        if len(targets) != n or targets.ndim > 2:
            raise DataError(
                f"{type(self).__name__}: y has shape {targets.shape} but X has {n} rows; "
                "pass one target, or one row of targets, for each row of X."
            )
        return targets

    def _validate_weights(
        self, sample_weight: ArrayLike | None, targets: Array, *, any_range: bool = False
    ) -> Array | None:
        """Weights as floats of shape (n,), or None if all rows count the same."""
        if sample_weight is None:
            return None
        remedy = "Pass one finite weight >= 0 for each row, not all of them 0."
        with as_data_errors(type(self).__name__, remedy):
            weights: Array = _check_sample_weight(
                sample_weight, targets, dtype=np.float64, ensure_non_negative=True
            )
        if not any_range:
            positive = weights[weights > 0]
            require_weight_range(type(self).__name__, float(positive.min()), float(positive.max()))
        return weights

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Show in notebooks what is stored: a display must not start an eigendecomposition."""
        waiting = {
            name
            for cls in type(self).__mro__
            for name, member in vars(cls).items()
            if isinstance(member, cached_property) and name not in self.__dict__
        }
        stored = type(self).__new__(type(self))
        stored.__dict__.update(self.__dict__ | dict.fromkeys(waiting))
        shown = BaseEstimator._get_fitted_attr_html(stored, doc_link)
        for name in waiting:
            shown.pop(name, None)
        return shown


def tagged_kernel(model: KernelEstimator) -> object:
    """A kernel that takes the data that an estimator takes."""
    return model._default_kernel() if model.kernel is None else outline(model.kernel)


def _takes_kernel_as_given(model: KernelEstimator) -> bool:
    """Whether this is a model that compares no kernels, for which the given one is a start."""
    compares = getattr(model, "learn", False) or getattr(model, "length_scales", None) is not None
    return hasattr(model, "predict") and not compares
