"""Methods of fitted models on rows that come in blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import TransformerMixin

from mercer.exceptions import DataError
from mercer.streams.blocks import Block, repeatable
from mercer.streams.schema import filled, in_order
from mercer.streams.sources import Given, named_columns, require_targets, source_of

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Let a method from rows to an array take blocks and Dask collections too.

    Blocks give one array, a Dask collection gives a lazy Dask array, and an array without rows
    gives a result without rows.
    """

    @wraps(method)
    def applied(self: Any, X: Any) -> Any:
        if type(X) is np.ndarray and X.base is None and len(X.shape) == 2 and len(X):
            return method(self, X)
        source, X = source_of(type(self).__name__, X)
        if source is not None:
            applied = partial(_to_block, method, self)
            return source.mapped(applied, method.__name__, self._known_row)
        if isinstance(X, np.ndarray) and X.ndim == 2 and not len(X):
            # The result for one row has the columns and the type of a result without rows.
            return method(self, filled(np.zeros((1, X.shape[1]), X.dtype), self._known_row))[:0]
        return method(self, X)

    return cast(Method, applied)


def _to_block(method: Callable[..., Any], model: Any, data: Any) -> Any:
    """Apply a method to a block, whose named columns may come in any order."""
    return method(model, in_order(data, model._names_seen))


def scored_by_blocks(sums_of: Callable[[Any, Block], Any]) -> Callable[[Method], Method]:
    """Let the score of a model take blocks and Dask collections too.

    `sums_of` maps a model and a block to sums, whose `value`, added over all blocks, is the score.
    """

    def decorated(method: Method) -> Method:
        @wraps(method)
        def applied(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
            owner = type(self).__name__
            require_targets(owner, X, y)
            source, X = source_of(owner, X, y, sample_weight, whole=np.inf, lists=True)
            if source is None:
                given, _ = named_columns(owner, Given(X, y, sample_weight))
                return float(method(self, *given))
            sums = source.map_sum(partial(sums_of, self), method.__name__)
            if sums is None:
                raise DataError(f"{owner}: {source.emptiness}")
            return float(sums.value)

        return cast(Method, applied)

    return decorated


class BlockTransformer(TransformerMixin, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base of transformers that take blocks and Dask collections.

    After `set_output`, every block becomes a data frame: those of blocks are concatenated, and a
    Dask collection becomes a Dask data frame.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "transform" in cls.__dict__:
            setattr(cls, "transform", by_blocks(cls.transform))  # noqa: B010

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and transform the same rows.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            The rows. An iterator is kept in a temporary file, and read twice.
        y : object, optional
            Ignored.
        **fit_params
            What else `fit` takes.

        Returns
        -------
        ndarray, data frame or Dask collection
            As `transform` returns it.
        """
        X = repeatable(X)
        return self.fit(X, y, **fit_params).transform(X)
