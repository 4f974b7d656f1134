"""The cost of fitting a model, before it is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone

from mercer.exceptions import DataTypeError, ParameterTypeError
from mercer.models.gaussian_process.regressor import GaussianProcessRegressor
from mercer.models.machine.base import KernelMachine
from mercer.models.ridge.kernel_ridge import KernelRidge
from mercer.solvers.forecast import Forecast


def forecast(
    model: KernelRidge | KernelMachine | GaussianProcessRegressor,
    X: Any,
    y: ArrayLike | None = None,
) -> Forecast:
    """Forecast the memory and operations of each solver, and the choice of "auto" with its reason.

    Parameters
    ----------
    model : KernelRidge, KernelMachine or GaussianProcessRegressor
        The model; it is not fitted.
    X : array-like, data frame, sequence, Blocks or Dask collection
        The rows to fit; pass an iterator, which can be read only once, as `Blocks`.
    y : array-like, optional
        Their targets, which determine the number of functions; needed only for classifiers, for
        which two classes are assumed without targets.

    Returns
    -------
    Forecast
        The forecast, which prints as a table.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.zeros((200_000, 3), dtype=np.float32)
    >>> type(mc.forecast(mc.KernelRidge(mc.RBF(1.0)), X).chosen).__name__
    'NystromSolver'
    """
    if not isinstance(model, KernelRidge | KernelMachine | GaussianProcessRegressor):
        raise ParameterTypeError(
            f"forecast: model is a {type(model).__name__}, which does not choose among solvers by "
            "what they cost; pass a KernelRidge, a machine of any loss, or a "
            "GaussianProcessRegressor."
        )
    if isinstance(X, Iterator):
        raise DataTypeError(
            f"forecast: X is a {type(X).__name__}, which can be gone through once, and would be "
            "used up before the fit; pass mercer.Blocks(X) to both, which keeps it in a file, or "
            "some rows as an array."
        )
    result: Forecast = clone(model)._forecast_for(X, y)
    return result
