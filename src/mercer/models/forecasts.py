"""What fitting a model would cost, before it is fitted."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from mercer.exceptions import ParameterTypeError
from mercer.models.ridge import KernelRidge
from mercer.solvers.auto import Forecast


def forecast(model: KernelRidge, X: Any) -> Forecast:
    """Say what each solver would cost in memory and operations, and which one "auto" takes and why.

    Parameters
    ----------
    model : KernelRidge
        The model; it is not fitted.
    X : array-like, data frame, sequence, Blocks or Dask collection
        The rows that it would be fitted to.

    Returns
    -------
    Forecast
        Prints as a table.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.zeros((200_000, 3), dtype=np.float32)
    >>> type(mc.forecast(mc.KernelRidge(mc.RBF(1.0)), X).chosen).__name__
    'Nystrom'
    """
    if not isinstance(model, KernelRidge):
        raise ParameterTypeError(
            f"forecast: model is a {type(model).__name__}, which has one way to be fitted; pass a "
            "KernelRidge."
        )
    found: Forecast = clone(model)._forecast_for(X)
    return found
