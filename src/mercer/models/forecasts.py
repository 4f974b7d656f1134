"""What fitting a model would cost, before it is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.exceptions import ParameterTypeError
from mercer.models.gaussian_process import GaussianProcessRegressor
from mercer.models.ridge import KernelRidge
from mercer.solvers.auto import Forecast


def forecast(model: KernelRidge | GaussianProcessRegressor, X: Any) -> Forecast:
    """Say what each solver would cost in memory and operations, and which one "auto" takes and why.

    Parameters
    ----------
    model : KernelRidge or GaussianProcessRegressor
        The model; it is not fitted.
    X : array-like, data frame or sequence
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
    if not isinstance(model, KernelRidge | GaussianProcessRegressor):
        raise ParameterTypeError(
            f"forecast: model is a {type(model).__name__}, which has one way to be fitted; pass a "
            "KernelRidge or a GaussianProcessRegressor."
        )
    probe = clone(model)
    rows = probe._validate_points(probe._kernel_or_default(probe.kernel), X, reset=True)
    found: Forecast = probe._forecast_for(X, np.zeros(len(rows)))
    return found
