"""The errors and warnings of mercer. Each message states owner, value, rule and remedy."""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "DataError",
    "DataTypeError",
    "MemoryForecastError",
    "MercerError",
    "MercerWarning",
    "NoFeatureMapError",
    "NotDifferentiableError",
    "NumericalWarning",
    "ParameterError",
    "UnfusedWarning",
    "UnresolvedParameterError",
    "ValidityError",
    "warn",
]


class MercerError(Exception):
    """Base of every error that mercer raises on purpose."""


class ParameterError(MercerError, ValueError):
    """A parameter has a value, a name or a shape that its declaration does not allow."""


class UnresolvedParameterError(ParameterError):
    """A parameter still holds a heuristic such as ``"median"`` where a number is needed."""


class DataError(MercerError, ValueError):
    """The data have content that the kernel or the estimator cannot use."""


class DataTypeError(DataError, TypeError):
    """The data are of a kind that the kernel does not take."""


class ValidityError(MercerError, ValueError):
    """A kernel or a matrix is not positive semi-definite where it has to be."""


class MemoryForecastError(MercerError, MemoryError):
    """The result would need more memory than there is."""


class NotDifferentiableError(MercerError, TypeError):
    """A gradient was asked of something that has none."""


class NoFeatureMapError(MercerError, TypeError):
    """An explicit feature map was asked of a kernel whose feature space is not finite."""


class MercerWarning(UserWarning):
    """Base of every warning that mercer gives."""


class UnfusedWarning(MercerWarning):
    """A kernel could not be traced, and runs in blocks of NumPy instead of fused tiles."""


class NumericalWarning(MercerWarning):
    """A result is less accurate than usual, or needed help such as jitter."""


def warn(message: str, category: type[MercerWarning]) -> None:
    """Give a warning that points at the caller's own line, however deep in mercer it arises.

    Parameters
    ----------
    message : str
        The sentence.
    category : type
        The class of the warning.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_inner(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_inner(module: str) -> bool:
    return module.partition(".")[0] in ("mercer", "functools", "sklearn")
