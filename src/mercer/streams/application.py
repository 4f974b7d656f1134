"""Methods of fitted models on rows that come in blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from mercer.streams.sources import source_of

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Let a method from rows to an array take blocks and Dask collections too.

    Of blocks it returns one array, of Dask collections a lazy Dask array.

    Parameters
    ----------
    method : callable
        Takes the estimator and X.

    Returns
    -------
    callable
        The method, with blocks for X.
    """

    @wraps(method)
    def applied(self: Any, X: Any) -> Any:
        if type(X) is np.ndarray and X.base is None:
            return method(self, X)
        source, X = source_of(type(self).__name__, X)
        if source is None:
            return method(self, X)
        return source.mapped(partial(method, self), method.__name__)

    return cast(Method, applied)
