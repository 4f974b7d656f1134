"""The errors and warnings of mercer. Each message states owner, value, rule and remedy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn import exceptions


class MercerError(Exception):
    """Base of every error that mercer raises on purpose."""


class ParameterError(MercerError, ValueError):
    """A parameter has a value, a name or a shape that its declaration does not allow."""


class ParameterTypeError(ParameterError, TypeError):
    """A parameter, or the other side of an operator, is of a kind that is never allowed there."""


class UnknownAttributeError(MercerError, AttributeError):
    """An object or a module does not have the attribute that was asked for.

    The message may be a function, called when it is shown: ``hasattr`` catches most such errors.
    """

    def __str__(self) -> str:
        (message,) = self.args
        return str(message() if callable(message) else message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)


class UnresolvedParameterError(ParameterError):
    """A parameter still holds a heuristic such as ``"median"`` where a number is needed."""


class DataError(MercerError, ValueError):
    """The data have content that the kernel or the estimator cannot use."""


class DataTypeError(DataError, TypeError):
    """The data are of a kind that the kernel does not take."""


class IndexingError(DataError, IndexError):
    """Rows or columns were selected that are not there."""


class ValidityError(MercerError, ValueError):
    """A kernel or a matrix is not positive semi-definite where it has to be."""


class MemoryForecastError(MercerError, MemoryError):
    """The result would need more memory than there is."""


class NotDifferentiableError(MercerError, TypeError):
    """A gradient was asked of something that has none."""


class NoFeatureMapError(MercerError, TypeError):
    """An explicit feature map was asked of a kernel whose feature space is not finite."""


class MissingDependencyError(MercerError, ImportError):
    """A package that mercer does not always need is needed, and is not installed."""


class ClusterError(MercerError, RuntimeError):
    """The machines that hold the data are gone, or do not answer."""


class MercerWarning(UserWarning):
    """Base of every warning that mercer gives."""


class UnfusedWarning(MercerWarning):
    """A kernel could not be traced, and runs in blocks of NumPy instead of fused tiles."""


class NumericalWarning(MercerWarning):
    """A result is less accurate than usual, or needed help such as jitter."""


class VersionWarning(MercerWarning, exceptions.InconsistentVersionWarning):
    """A model was pickled by another version of mercer; scikit-learn's filters see it."""

    def __init__(self, message: str) -> None:
        Warning.__init__(self, message)

    __str__ = Warning.__str__


class DataWarning(MercerWarning):
    """Data are read in a way that may not be meant, such as negative weights."""


class ShortFitWarning(NumericalWarning, exceptions.ConvergenceWarning):
    """Iterations ended before the result was as exact as asked; scikit-learn's filters see it."""


def warn(message: str, category: type[MercerWarning]) -> None:
    """Give a warning that points at the caller's own line, however deep in mercer it arises."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_inner(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def as_data_errors(owner: str, remedy: str = "") -> Iterator[None]:
    """Turn errors of scikit-learn about data into `DataError`: owner, their message, remedy."""
    try:
        yield
    except MercerError:
        raise
    except ValueError as error:
        message = str(error)
        if remedy:
            ended = message.endswith((".", "!", "\n"))
            message += ("" if message.endswith("\n") else " ") if ended else ". "
        raise DataError(f"{owner}: {message}{remedy}") from error


def _is_inner(module: str) -> bool:
    # fit may be wrapped by scikit-learn's callbacks, and methods by context managers.
    return module.partition(".")[0] in ("mercer", "functools", "contextlib") or module.startswith(
        "sklearn.callback"
    )


__all__ = [name for name in dir() if name.endswith(("Error", "Warning"))]
