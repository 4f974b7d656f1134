"""The cost of fitting a model, before it is fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import check_cv

from mercer import memory
from mercer.estimator.base import KernelEstimator
from mercer.exceptions import DataTypeError, ParameterTypeError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.clustering.kernel_kmeans import KernelKMeans
from mercer.models.clustering.novelty import KernelNovelty
from mercer.models.clustering.spectral import SpectralClustering
from mercer.models.kernel_regression.nadaraya_watson import NadarayaWatson
from mercer.models.length_scales import free_lengths
from mercer.models.online.base import OnlineModel
from mercer.models.online.perceptron import KernelPerceptron
from mercer.models.svm.base import SupportVectorMachine
from mercer.models.svm.classification import SVC
from mercer.models.svm.detection import SupportVectorDetector
from mercer.models.svm.multiclass import SupportVectorClassifier
from mercer.models.svm.regression import SupportVectorRegressor
from mercer.models.svm.search import SVCSearch
from mercer.parallel import thread_count
from mercer.solvers.forecast import Forecast
from mercer.solvers.protocol import TOO_LARGE, Cost
from mercer.solvers.speed import LEAST_SECONDS, operations_per_second, seconds_per_pair
from mercer.streams.sources import Given, named_columns


@dataclass(frozen=True)
class _Fit:
    """The cost of a model that has one way to be fitted, for n rows, as measured on defaults."""

    pairs: float  # the time of a fit in kernel values, over n^2
    size: float = 0.0  # bytes of a fit of few rows
    row_size: float = 2_300.0  # bytes for each row
    row_seconds: float = 0.0  # seconds for each row
    seconds: float = LEAST_SECONDS  # seconds of a fit of few rows
    matrices: float = 0.0  # matrices of all pairs of rows
    most_rows: float = np.inf  # rows of these matrices at most
    cubes: float = 0.0  # operations of matrix products over n^3
    stored: float = 0.0  # further matrices, of no more than _STORED_ROWS rows
    fits: float = 1.0  # fits that it takes the time of
    gain: float = 1.0  # the power of the number of threads by which pairs take less time
    why: str = "it has one way to be fitted"


# Kernel values of a search, over n^2, for each candidate and fold.
_SEARCH_PAIRS = 4.0
# Seconds of each fit of a search, beside its kernel values.
_SEARCH_SECONDS = 6e-4
# Rows up to which support vector machines and the perceptron store the matrix.
_STORED_ROWS = 2048
# Fits that probabilities, which come from five folds, take the time of.
_FOLD_FITS = 4.0
# Memory of probabilities for each row, over that of a fit.
_FOLD_ROWS = 2.6
# Seconds and bytes of the machine of a class or a pair of classes, beside its kernel values.
_FUNCTION_SECONDS, _FUNCTION_SIZE = 1.2e-5, 3.3e3
# The time to store a kernel value, in kernel values.
_STORED_PAIRS = 2.0
# Length-scales that a search compares by default.
_LENGTHS = 11
_SMO = "it has one way to be fitted; about: the time depends on how many support vectors there are"
_FITS: tuple[tuple[type, _Fit], ...] = (
    (SupportVectorDetector, _Fit(1.0, row_seconds=1.3e-6, stored=1.25, gain=0.5, why=_SMO)),
    (SupportVectorRegressor, _Fit(4.0, row_seconds=1.3e-6, stored=1.25, gain=0.5, why=_SMO)),
    (SupportVectorMachine, _Fit(0.8, row_seconds=1.3e-6, stored=1.25, gain=0.5, why=_SMO)),
    (
        NadarayaWatson,
        _Fit(245.0, row_size=1e3, row_seconds=5e-5, matrices=3.7, most_rows=_STORED_ROWS),
    ),
    (KernelNovelty, _Fit(1.5, row_size=140.0)),
    (KernelKMeans, _Fit(6.0, row_size=550.0)),
    (SpectralClustering, _Fit(45.0, row_size=2.8e3, matrices=1.1, most_rows=4096)),
    (KernelPerceptron, _Fit(0.0, size=1.5e6, row_size=3e3, row_seconds=4.5e-4, stored=1.2)),
    (OnlineModel, _Fit(0.45, size=1.5e6, row_size=250.0, row_seconds=1.2e-6)),
)


def forecast(model: KernelEstimator | SVCSearch, X: Any, y: ArrayLike | None = None) -> Forecast:
    """Forecast the memory and the seconds of a fit, by each solver if the model has several.

    Parameters
    ----------
    model : KernelEstimator or SVCSearch
        The model; it is not fitted.
    X : array-like, data frame, sequence, Blocks or Dask collection
        The rows to fit; pass an iterator, which can be read only once, as `Blocks`.
    y : array-like, optional
        Their targets, which determine the number of functions; needed only for classifiers, for
        which two classes are assumed without targets.

    Returns
    -------
    Forecast
        The forecast, which prints as a table, with the choice of "auto" and its reason.

    Notes
    -----
    Seconds are operations divided by the speed of this machine, which is measured in milliseconds.
    The operations are those of ordinary data. The time of a support vector machine is about right
    only: it depends on how many support vectors there are, and may be three times as long on noisy
    data. Transformers have no forecast.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.zeros((200_000, 3), dtype=np.float32)
    >>> type(mc.forecast(mc.KernelRidge(mc.RBF(1.0)), X).chosen).__name__
    'NystromSolver'
    """
    if isinstance(X, Iterator):
        raise DataTypeError(
            f"forecast: X is a {type(X).__name__}, which can be gone through once, and would be "
            "used up before the fit; pass mercer.Blocks(X) to both, which keeps it in a file, or "
            "some rows as an array."
        )
    (X, y, _), _ = named_columns("forecast", Given(X, y, None))
    if hasattr(model, "_forecast_for"):
        result: Forecast = clone(model)._forecast_for(X, y)
        return result
    if isinstance(model, SVCSearch):
        return _search(clone(model), X, y)
    for kind, fit in _FITS:
        if isinstance(model, kind):
            return _one_way(clone(model), X, _adapted(model, fit, y))
    raise ParameterTypeError(
        f"forecast: model is a {type(model).__name__}, whose cost is not known; pass a regressor, "
        "classifier or detector of mercer, such as KernelRidge() or SVC(), or SVCSearch()."
    )


def _adapted(model: Any, fit: _Fit, y: ArrayLike | None) -> _Fit:
    """The cost with the classes, and with the parameters of the model that change it."""
    if isinstance(model, SupportVectorDetector):  # a share nu of the rows are support vectors
        return replace(fit, pairs=2 * float(model.nu) * fit.pairs)
    if isinstance(model, KernelKMeans):
        return replace(fit, fits=float(model.n_init))
    if not isinstance(model, SupportVectorClassifier):
        return fit
    fits, rows = (_FOLD_FITS, _FOLD_ROWS) if model.probability else (1.0, 1.0)
    classes = 2 if y is None else len(np.unique(np.asarray(y)))
    functions = classes * (classes - 1) / 2 if model.multi_class == "ovo" else classes
    return replace(
        fit,
        fits=fits,
        seconds=fit.seconds + fits * functions * _FUNCTION_SECONDS,
        size=fit.size + rows * functions * _FUNCTION_SIZE,
        row_size=rows * fit.row_size,
    )


def _one_way(model: Any, X: Any, fit: _Fit) -> Forecast:
    """The forecast of a model with one way to be fitted."""
    kernel, points = _points(model, X)
    n = float(len(points))
    stored = fit.stored if n <= _STORED_ROWS else 0.0
    size = 8 * (fit.matrices * min(n, fit.most_rows) ** 2 + stored * n**2)
    size += fit.size + fit.row_size * n
    pair = seconds_per_pair(kernel.resolve(points), points) * thread_count() ** (1 - fit.gain)
    pairs = (fit.pairs + _STORED_PAIRS * stored) * n**2
    seconds = fit.seconds + fit.fits * (fit.row_seconds * n + pairs * pair)
    seconds += fit.cubes * n**3 / operations_per_second()
    obstacle = TOO_LARGE if size > memory.available() else ""
    cost = Cost(model, size, fit.cubes * n**3, pairs, obstacle, seconds)
    return Forecast((cost,), model, fit.why)


def _search(model: SVCSearch, X: Any, y: ArrayLike | None) -> Forecast:
    """The forecast of a search: of every candidate on every fold."""
    lengths = model.length_scales
    machine = SVC() if model.estimator is None else model.estimator
    kernels = _LENGTHS if lengths is not None and free_lengths(_points(machine, X)[0]) else 1
    if isinstance(lengths, Mapping):
        kernels = int(np.prod([len(values) for values in lengths.values()]))
    elif lengths is not None and not isinstance(lengths, str):
        kernels = len(lengths)
    folds = check_cv(model.cv, y, classifier=True).get_n_splits(X, y)
    fits = kernels * len(model.Cs) * folds
    why = f"it fits {fits} machines, {kernels * len(model.Cs)} candidates on {folds} folds"
    fixed = LEAST_SECONDS + _SEARCH_SECONDS * fits
    fit = _Fit(_SEARCH_PAIRS * fits, row_size=12e3, seconds=fixed, matrices=1.7, gain=0.5, why=why)
    priced = _one_way(machine, X, fit)
    return replace(priced, costs=(replace(priced.costs[0], solver=model),), chosen=model)


def _points(model: Any, X: Any) -> tuple[Kernel, Points]:
    """The kernel of a model, and rows as it takes them."""
    if isinstance(model, SupportVectorMachine):
        kernel, points = model._read_points(X)
        return kernel, points
    kernel = model._kernel_or_default(model.kernel, X)
    return kernel, model._validate_points(kernel, X, reset=True)
