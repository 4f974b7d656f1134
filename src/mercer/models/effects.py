r"""The function of a model as a sum over the terms of its kernel.

For k = k_1 + ... + k_m and coefficients a, the function is a sum of f_j(x) = sum_i a_i k_j(x, x_i)
and a constant. Each f_j is shown minus its mean over the points x_i, and the intercept takes the
means. If targets y have the coefficients a = P y,

- the degrees of freedom of a term are :math:`\operatorname{tr}(K_j P)`;
- a Gaussian process has the posterior variance :math:`k_j(x, x) - k_j(x, X)\, P\, k_j(X, x)` of a
  term, here with the kernel of the function minus its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.estimator.base import shown
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.kernels.terms import Term, terms
from mercer.models import tables
from mercer.models.explanation import as_rows, place_of
from mercer.sampling import blocks
from mercer.solvers.ridge.gram import TargetMaps

# Least posterior variance, in units of k(x, x): the rounding error of the difference.
_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class Effects:
    r"""The function of a model, taken apart by the terms of its kernel.

    .. math:: f(x) = \sum_j f_j(x) + b , \qquad
       f_j(x) = \sum_i a_i k_j(x, x_i) - c_j .

    The constant c_j is the mean of the sum over ``points_`` of the model, so that every effect is
    zero on average there. The intercept b is that of the model plus all c_j.

    Attributes
    ----------
    names : tuple of str
        The terms, without numbers, such as ``"RBF.on('income')"``.
    values : ndarray of shape (m, n_terms)
        The effects f_j(x) of each row.
    intercept : float
        The constant b.
    std : ndarray of shape (m, n_terms) or None
        Posterior standard deviations of `values`, for an exact Gaussian process.
    dof : ndarray of shape (n_terms,) or None
        Effective degrees of freedom of each term, the trace of K_j P, where P maps targets to
        coefficients: for exact ridge and Gaussian processes. For ridge they sum to
        ``effective_dof_``, less one for an intercept.
    kernels : tuple of Kernel
        The terms, as kernels.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(60, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] + 3
    >>> model = mc.KernelRidge(mc.RBF().on(0) + mc.Linear().on(1), alpha=0.01).fit(X, y)
    >>> effects = model.effects(X)
    >>> bool(np.allclose(effects.values.sum(axis=1) + effects.intercept, model.predict(X)))
    True
    >>> effects
    Effects of 2 terms at 60 rows; intercept 3.27
    term             dof  deviation   least  largest
    RBF.on(0)      5.771     0.6442  -1.107   0.8838
    Linear.on(1)  0.9999      1.326  -2.146    1.822
    """

    names: tuple[str, ...]
    values: Array
    intercept: float
    std: Array | None
    dof: Array | None
    kernels: tuple[Kernel, ...]

    def to_frame(self) -> Any:
        """The effects as a data frame of pandas.

        Returns
        -------
        pandas.DataFrame
            One column for each term, then "intercept". Every row sums to f(x).
        """
        columns = dict(zip(self.names, self.values.T, strict=True))
        return tables.as_frame("Effects", columns | {"intercept": self.intercept})

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        """The header and the lines of the printed table."""
        columns = {"deviation": self.values.std(axis=0)} if len(self.values) else {}
        if len(self.values):
            columns |= {"least": self.values.min(axis=0), "largest": self.values.max(axis=0)}
        if self.std is not None and len(self.values):
            columns["mean std"] = self.std.mean(axis=0)
        if self.dof is not None:
            columns = {"dof": self.dof} | columns
        entries = zip(
            *([tables.number(v) for v in column] for column in columns.values()), strict=True
        )
        return ["term", *columns], [[n, *e] for n, e in zip(self.names, entries, strict=True)]

    @property
    def _title(self) -> str:
        m, count = self.values.shape
        return f"Effects of {count} terms at {m} rows; intercept {tables.number(self.intercept)}"

    def __repr__(self) -> str:
        return f"{self._title}\n{tables.as_text(*self._rows())}"

    def _repr_html_(self) -> str:
        return tables.as_html(*self._rows(), self._title)


def effects_of(model: Any, X: Any, output: Any) -> Effects:
    """The effects of one function of a fitted model."""
    check_is_fitted(model, "kernel_")
    each = _terms_of(model)
    points = model._validate_points(model.kernel_, as_rows(X, model.kernel_), reset=False)
    coefficients, intercept, target = _function(model, output)
    training = model.points_
    values = [np.asarray(k.gram(points, training) @ coefficients, np.float64) for _, k in each]
    means = [np.mean(k.gram(training, training) @ coefficients) for _, k in each]
    dof = std = None
    # Models have these maps if they are exact and linear in the targets.
    maps: TargetMaps | None = getattr(model, "_target_maps", None)
    if maps is not None:
        dof = np.array([np.vdot(k(training), maps.dual) for _, k in each], dtype=np.float64)
    if maps is not None and hasattr(model, "y_scale_"):
        deviations = [_deviation(k, training, points, maps.dual) for _, k in each]
        std = float(np.ravel(model.y_scale_)[target]) * np.column_stack(deviations)
    names, kernels = zip(*each, strict=True)
    total = float(intercept + np.sum(means))
    return Effects(names, np.column_stack(values) - means, total, std, dof, kernels)


def _terms_of(model: Any) -> list[Term]:
    """The terms of the kernel, if they are terms of the function too."""
    owner = f"{type(model).__name__}.effects"
    reason = model._no_effects
    if getattr(getattr(model, "solver_", None), "is_approximate", False):
        reason = "the function is one of random features, which have a kernel of their own"
    elif getattr(model, "dual_coef_", None) is None:
        reason = "the model holds coefficients of features, and none of points"
    if reason:
        raise DataError(
            f"{owner}: {reason}; fit arrays by a model of points, such as "
            "KernelRidge(kernel, solver=mercer.solvers.Cholesky())."
        )
    each = terms(model.kernel_)
    if len(each) < 2:
        raise ParameterError(
            f"{owner}: the kernel {shown(model.kernel_)} has one term, so there is nothing to take "
            f"apart; fit a sum of kernels, such as {_example_sum(model)}, or show averages over "
            "the other columns by sklearn.inspection.PartialDependenceDisplay."
        )
    return each


def _example_sum(model: Any) -> str:
    """A sum of kernels of the first columns that the model was fitted on."""
    columns = list(getattr(model, "feature_names_in_", range(2)))[:2]
    return " + ".join(f"RBF().on({column!r})" for column in columns)


def _function(model: Any, output: Any) -> tuple[Array, float, int]:
    """Coefficients and intercept of the function of an output, and the number of the output."""
    kind, names = model._output_names()
    place = 1 if kind == "class" else 0
    if output is not None:
        place = place_of(type(model).__name__, output, kind, names)
    elif kind == "class" and len(names) > 2:
        raise ParameterError(
            f"{type(model).__name__}.effects: the model has one function for each of "
            f"{len(names)} classes; pass output=, the label of one of them."
        )
    coefficients, intercept = model._explained
    columns = np.asarray(coefficients, dtype=np.float64).reshape(len(model.points_), -1)
    constants = np.broadcast_to(np.asarray(intercept, dtype=np.float64), columns.shape[1])
    if len(names) <= columns.shape[1]:
        return columns[:, place], float(constants[place]), place
    # Two classes share a function, with opposite signs.
    sign = 1.0 if place else -1.0
    return sign * columns[:, 0], sign * float(constants[0]), place


def _deviation(kernel: Kernel, training: Points, points: Points, precision: Array) -> Array:
    """Posterior standard deviations of a term minus its mean over the training points."""
    means = np.asarray(kernel.gram(training, training) @ np.ones(len(training))) / len(training)
    parts = []
    for rows in blocks(len(points), width=len(training)):
        cross = kernel(points[rows], training).astype(np.float64, copy=False)
        prior = kernel.diag(points[rows]) - 2 * cross.mean(axis=1) + means.mean()
        cross -= means
        explained = np.einsum("ij,ij->i", cross @ precision, cross)
        parts.append(np.sqrt(np.maximum(prior - explained, _ROUNDING * np.abs(prior))))
    return np.concatenate(parts)
