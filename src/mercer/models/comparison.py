"""A comparison of models and kernels by cross-validation on the same folds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils import indexable

from mercer.arrays import Array
from mercer.checks import nearest
from mercer.estimator.base import shown
from mercer.exceptions import ParameterError, ParameterTypeError, as_data_errors
from mercer.kernels.base import Kernel
from mercer.kernels.names import kernel_of
from mercer.models import tables
from mercer.models.machine.classification import KernelLogisticRegression
from mercer.models.ridge.kernel_ridge import KernelRidge
from mercer.streams.sources import Given, named_columns

# Whole numbers with at most this many values are labels.
_LABELS = 20
# Seconds after which the progress is printed.
_PATIENCE = 10.0
# Characters of a name in a printed table.
_WIDTH = 50


@dataclass(frozen=True)
class ComparedModel:
    """One line of a `Comparison`; numbers that a model does not have are NaN."""

    name: str
    model: Any  # the model, fitted to all rows; unfitted if it failed
    scores: Array  # (n_folds,): the score of each fold
    seconds: float = np.nan  # of the fit to all rows
    loo_error: float = np.nan  # root mean square of leave-one-out residuals
    log_likelihood: float = np.nan  # the log marginal likelihood
    dof: float = np.nan  # effective degrees of freedom
    error: str = ""  # why the model failed; empty if it did not

    @property
    def score(self) -> float:
        """The mean score."""
        return float(np.mean(self.scores))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Models in the order of their cross-validated scores, the best first.

    Attributes
    ----------
    results : tuple of ComparedModel
        One for each model, with its `name`, its `scores` in each fold and the fitted `model`.
        Models that failed come last, with the reason as `error`.
    scoring : str
        What the scores are; larger ones are better.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> table = mc.compare({"smooth": mc.RBF("columns"), "line": mc.Linear()}, X, y)
    >>> table.best.name, table["line"].scores.shape
    ('line', (5,))
    """

    results: tuple[ComparedModel, ...]
    scoring: str

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, name: str) -> ComparedModel:
        """The line with this name."""
        for result in self.results:
            if result.name == name:
                return result
        known = ", ".join(result.name for result in self.results)
        raise KeyError(f"{name!r} was not compared; the names are {known}.")

    @property
    def best(self) -> ComparedModel:
        """The model with the largest mean score."""
        return self.results[0]

    def to_frame(self) -> Any:
        """The table as a data frame of pandas, with names as index.

        Returns
        -------
        pandas.DataFrame
            The columns "score", "std_error", "difference" (to the best, on the same folds),
            "difference_std_error", "loo_error", "log_likelihood", "dof", "seconds" and "error".
        """
        return tables.as_frame("Comparison", self._columns(), [r.name for r in self.results])

    def _columns(self) -> dict[str, list[Any]]:
        differences = [result.scores - self.best.scores for result in self.results]
        return {
            "score": [result.score for result in self.results],
            "std_error": [_std_error(result.scores) for result in self.results],
            "difference": [float(np.mean(d)) for d in differences],
            "difference_std_error": [_std_error(d) for d in differences],
            "loo_error": [result.loo_error for result in self.results],
            "log_likelihood": [result.log_likelihood for result in self.results],
            "dof": [result.dof for result in self.results],
            "seconds": [result.seconds for result in self.results],
            "error": [result.error for result in self.results],
        }

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        """The header and the lines of the printed table, without columns that are empty."""
        columns = self._columns()
        text = {
            "score": _with_errors(columns["score"], columns["std_error"]),
            "to the best": _with_errors(columns["difference"], columns["difference_std_error"]),
            "loo error": [tables.number(v) for v in columns["loo_error"]],
            "log-likelihood": [tables.number(v, 5) for v in columns["log_likelihood"]],
            "dof": [tables.number(v, 3) for v in columns["dof"]],
            "seconds": [tables.number(v, 2) for v in columns["seconds"]],
        }
        text["to the best"][0] = ""
        kept = {title: entries for title, entries in text.items() if any(entries)}
        rows = [
            [_short(r.name), *(c[i] for c in kept.values())] for i, r in enumerate(self.results)
        ]
        return ["model", *kept], rows

    @property
    def _failures(self) -> list[str]:
        return [f"{_short(r.name)} failed: {r.error}" for r in self.results if r.error]

    @property
    def _title(self) -> str:
        return f"{self.scoring}, mean of {len(self.best.scores)} folds (standard error)"

    def __repr__(self) -> str:
        return "\n".join([self._title, tables.as_text(*self._rows()), *self._failures])

    def _repr_html_(self) -> str:
        return tables.as_html(*self._rows(), "; ".join([self._title, *self._failures]))


def compare(
    models: Mapping[str, Any] | Iterable[Any],
    X: Any,
    y: ArrayLike,
    cv: Any = 5,
    scoring: Any = None,
    *,
    groups: ArrayLike | None = None,
) -> Comparison:
    """Compare models and kernels by their scores at rows that they were not fitted to.

    Every model is fitted to the same folds, and once to all rows. A kernel becomes
    ``KernelRidge(kernel, alpha="loo")`` for numbers, and ``KernelLogisticRegression(kernel)`` for
    labels.

    Parameters
    ----------
    models : dict of str to model or kernel, or list of these
        The models, of mercer or of scikit-learn, and kernels as estimators take them: objects,
        names such as "rbf", or functions. A list may hold pairs (name, model); the names of
        others are their reprs.
    X : array-like, data frame or sequence
        Data that all of them take.
    y : array-like of shape (n,) or (n, n_targets), or str
        Targets or labels, or the name of their column in a data frame. If all models are kernels,
        strings and booleans are labels, as are whole numbers of an integer type with at most 20
        values; pass ``y.astype(float)`` to predict counts.
    cv : int, splitter or iterable, default=5
        The folds, as in scikit-learn. A number gives folds of consecutive rows, or stratified ones
        for labels.
    scoring : str or callable, optional
        A scorer of scikit-learn; by default "r2" for numbers and "accuracy" for labels.
    groups : array-like of shape (n,), optional
        Labels of groups, for a splitter such as scikit-learn's ``GroupKFold``.

    Returns
    -------
    Comparison
        A table: the mean score with its standard error, its difference to the best score with the
        standard error of paired differences, the leave-one-out error or the log marginal likelihood
        where the model has it, degrees of freedom, and the seconds of the fit to all rows. A model
        that fails is a line with its error.

    Notes
    -----
    Standard errors treat folds as independent. They share training rows, so that differences within
    two standard errors mean little. The best of many scores is optimistic: judge the chosen model
    on further rows. After ten seconds, each finished model is reported on stderr.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import RidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> table = mc.compare([mc.RBF("columns"), RidgeCV()], X, y, cv=3)
    >>> [result.name for result in table.results]
    ['RidgeCV()', "RBF(length_scale='columns')"]
    """
    named = _named(models)
    remedy = "Pass one target for each row, and at least as many rows as folds."
    with as_data_errors("compare", remedy):
        X, y, _ = named_columns("compare", Given(X, y, None))[0]
        X, y, groups = indexable(X, y, groups)
        labels = _are_labels(named.values(), y)
        folds = list(check_cv(cv, y, classifier=labels).split(X, y, groups))
    scoring = scoring or ("accuracy" if labels else "r2")
    _require_scoring(scoring)
    results, start = [], time.perf_counter()
    for name, candidate in named.items():
        results.append(_compared(name, _model(candidate, labels), X, y, folds, scoring))
        seconds = time.perf_counter() - start
        if seconds > _PATIENCE and len(results) < len(named):
            print(
                f"compare: {len(results)} of {len(named)} models after {seconds:.0f} s; "
                f"{_short(name)} {tables.number(results[-1].score)}",
                file=sys.stderr,
            )
    # A score of NaN, of a model that failed, comes last.
    order = np.argsort([-result.score for result in results], kind="stable")
    text = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))
    return Comparison(tuple(results[i] for i in order), text)


def _require_scoring(scoring: Any) -> None:
    if callable(scoring) or scoring in get_scorer_names():
        return
    near = nearest(str(scoring), get_scorer_names())
    hint = f"did you mean {near!r}? The names" if near else "the names"
    raise ParameterError(
        f"compare: scoring = {scoring!r} is not a scorer of scikit-learn; {hint} are those of "
        "sklearn.metrics.get_scorer_names()."
    )


def _named(models: Any) -> dict[str, Any]:
    """Models by name; those of a list are numbered if their names are equal."""
    several = isinstance(models, Iterable) and not isinstance(models, str | Kernel)
    items = models.items() if isinstance(models, Mapping) else map(_pair, models if several else ())
    named: dict[str, Any] = {}
    for base, model in items:
        name, number = str(base), 1
        while name in named:
            number += 1
            name = f"{base} ({number})"
        named[name] = model
    if not named:
        raise ParameterError(
            f"compare: models = {shown(models)} holds no models; pass a list or a dict of models "
            'and kernels, such as [mercer.RBF("columns"), "linear"].'
        )
    for name, model in named.items():
        if isinstance(model, type) or not (_is_kernel(model) or hasattr(model, "fit")):
            kind = "class" if isinstance(model, type) else type(model).__name__
            raise ParameterTypeError(
                f"compare: {name} is a {kind}, which is neither a kernel nor a "
                "model with fit; pass objects such as mercer.RBF() or mercer.KernelRidge()."
            )
        if isinstance(model, str):
            kernel_of("compare", model, gamma=1.0)
    return named


def _pair(item: Any) -> tuple[str, Any]:
    """The name and the model of an entry of a list."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return item
    return item if isinstance(item, str) else " ".join(repr(item).split()), item


def _is_kernel(candidate: Any) -> bool:
    """Whether an estimator takes the candidate as its kernel."""
    return isinstance(candidate, str) or (callable(candidate) and not hasattr(candidate, "fit"))


def _are_labels(models: Iterable[Any], y: Any) -> bool:
    """Whether targets are labels, by the models if there are some, by the type of y otherwise."""
    estimators = [model for model in models if not _is_kernel(model)]
    if any(map(is_classifier, estimators)):
        return True
    if any(map(is_regressor, estimators)):
        return False
    values = np.asarray(y)
    if values.dtype.kind in "iu":
        return values.ndim == 1 and len(np.unique(values)) <= _LABELS
    return values.dtype.kind != "f"


def _model(candidate: Any, labels: bool) -> Any:
    """A model for a kernel; a model as it is."""
    if not _is_kernel(candidate):
        return candidate
    return KernelLogisticRegression(candidate) if labels else KernelRidge(candidate, alpha="loo")


def _compared(name: str, model: Any, X: Any, y: Any, folds: Any, scoring: Any) -> ComparedModel:
    """The scores of a model in each fold, and what it tells of all rows."""
    try:
        scores = cross_val_score(model, X, y, cv=folds, scoring=scoring, error_score="raise")
        start = time.perf_counter()
        fitted = clone(model).fit(X, y)
        seconds = time.perf_counter() - start
        return ComparedModel(name, fitted, scores, seconds, **_diagnostics(fitted))
    except Exception as error:  # the other models are still of interest
        sentence = " ".join(str(error).split()) or type(error).__name__
        return ComparedModel(name, model, np.full(len(folds), np.nan), error=sentence)


def _diagnostics(model: Any) -> dict[str, Any]:
    """What a fitted model tells of itself, where that costs no more than the fit."""
    values: dict[str, Any] = {
        "log_likelihood": float(getattr(model, "log_marginal_likelihood_", np.nan))
    }
    if isinstance(model, KernelRidge) and (model.solver_.is_dense or model.solver_.has_features):
        residuals = np.asarray(model.loo_residuals_)
        values["loo_error"] = float(np.sqrt(np.mean(residuals**2)))
        values["dof"] = float(model.effective_dof_)
    return values


def _std_error(scores: Array) -> float:
    """The standard error of a mean; NaN for one fold."""
    return float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else np.nan


def _with_errors(values: list[float], errors: list[float]) -> list[str]:
    """Numbers with their standard errors in brackets."""
    pairs = zip(values, errors, strict=True)
    return ["" if v != v else f"{v:.3f}" + (f" ({e:.3f})" if e == e else "") for v, e in pairs]


def _short(name: str) -> str:
    return name if len(name) <= _WIDTH else f"{name[: _WIDTH - 3]}..."
