"""Results of models other than predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.estimator.by_blocks import by_blocks
from mercer.kernels.base import Kernel, validated
from mercer.kernels.points import Points
from mercer.models import tables
from mercer.solvers.protocol import FeatureFunction
from mercer.streams.schema import in_order

_ROWS_SHOWN = 5


@dataclass(frozen=True, eq=False)
class PrimalCoefficients:
    """A model in the feature space of its kernel.

    The function is f(x) = phi(x) . values + intercept.

    Attributes
    ----------
    names : tuple of str
        The names of the features.
    values : ndarray of shape (n_features,) or (n_features, n_targets)
        The coefficients.
    intercept : float or ndarray of shape (n_targets,)
        The intercept.

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.KernelRidge(mc.Linear(), alpha=1e-9).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.primal_coef().values.round(6)
    array([2.])
    """

    names: tuple[str, ...]
    values: Array
    intercept: Any

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Any:
        """The coefficient of the feature with this name."""
        if name not in self.names:
            raise KeyError(f"{name!r} is not a feature; the features are {', '.join(self.names)}.")
        return self.values[self.names.index(name)]


@dataclass(frozen=True, eq=False)
class NormalPredictions:
    """Normal distributions of targets, each described by its mean and variance.

    Attributes
    ----------
    mean : ndarray of shape (n,) or (n, n_targets)
        The means.
    variance : ndarray of shape (n,) or (n, n_targets)
        The variances.

    Examples
    --------
    >>> import mercer as mc
    >>> gp = mc.GaussianProcessRegressor(mc.RBF(), noise=0.1, learn=False, normalize_y=False)
    >>> left_out = gp.fit([[0.0], [9.0]], [1.0, 2.0]).loo_predictions_
    >>> left_out.mean.round(3), left_out.variance.round(3)
    (array([2., 1.]), array([2.2, 2.2]))
    """

    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False, repr=False)
class RidgePath:
    """Kernel ridge at many alphas, from one pass or one eigendecomposition.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        The weights of the squared norm, in the order of the call.
    dual_coef : ndarray of shape (n_alphas, m) or (n_alphas, m, n_targets)
        The coefficients over `points` at each alpha.
    intercept : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
        The intercepts.
    loo_errors : ndarray of shape (n_alphas,)
        Mean squared leave-one-out errors, averaged over targets; NaN from conjugate gradients,
        which do not compute them.
    gcv_errors : ndarray of shape (n_alphas,)
        Generalised cross-validation errors, likewise averaged; NaN from conjugate gradients.
    effective_dof : ndarray of shape (n_alphas,)
        Effective degrees of freedom; NaN from conjugate gradients.
    kernel : Kernel
        The kernel with numeric length-scales.
    points : Points
        The training points, or the landmarks.
    solver : object
        The solver.
    function : FeatureFunction, optional
        The functions by explicit features, for solvers in an explicit feature space.
    feature_names : ndarray of str, optional
        The column names of the training data frame, by which `predict` matches columns.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]
    >>> path = mc.KernelRidge(mc.Linear()).path(X, y, alphas=[0.0, 2.0, 1e9])
    >>> path.predict([[3.0]]).ravel().round(3)
    array([7., 5., 3.])
    """

    alphas: Array
    dual_coef: Array
    intercept: Array
    loo_errors: Array
    gcv_errors: Array
    effective_dof: Array
    kernel: Kernel
    points: Points
    solver: Any = None
    function: FeatureFunction | None = None
    feature_names: Sequence[str] | None = None

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        """The header and the lines of the printed table, without columns that are empty."""
        columns = {
            "alpha": self.alphas,
            "loo error": self.loo_errors,
            "gcv error": self.gcv_errors,
            "dof": self.effective_dof,
        }
        kept = {title: values for title, values in columns.items() if np.isfinite(values).any()}
        lines = zip(*kept.values(), strict=True)
        return list(kept), [[tables.number(value) for value in line] for line in lines]

    @property
    def _title(self) -> str:
        return f"RidgePath of {len(self.alphas)} alphas, {self.kernel}"

    def __repr__(self) -> str:
        return f"{self._title}\n{tables.as_text(*self._rows())}"

    def _repr_html_(self) -> str:
        return tables.as_html(*self._rows(), self._title)

    def predict(self, X: Any) -> Array:
        """Predictions of every model on the path.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data of the type that the kernel takes.

        Returns
        -------
        ndarray or Dask array of shape (n_alphas, m) or (n_alphas, m, n_targets)
            One set of predictions for each alpha; lazy for a Dask collection.
        """
        predictions: Array = np.moveaxis(self._by_row(X), 0, 1)
        return predictions

    @property
    def _known_row(self) -> Points:
        return self.points[:1]

    @property
    def _names_seen(self) -> Sequence[str] | None:
        return self.feature_names

    @by_blocks
    def _by_row(self, X: Any) -> Array:
        """The predictions, with rows of X along the first axis."""
        X = in_order(X, self.feature_names)
        gram = self.kernel.gram(X, self.points)
        if self.function is not None:
            flat = self.function(validated(self.kernel, X))
        else:
            columns = np.moveaxis(self.dual_coef, 0, 1).reshape(self.dual_coef.shape[1], -1)
            flat = np.asarray(gram @ columns)
        shape = (len(flat), len(self.alphas), *self.dual_coef.shape[2:])
        return (flat.reshape(shape) + self.intercept).astype(gram.dtype, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """The terms of predictions f(x) as sums over training points, the largest first.

    A term is a_i k(x, x_i), or for local regression s_i(x) y_i, the target of a point times its
    weight at x. For every row, ``values.sum() + rest + intercept`` is ``prediction``.

    Attributes
    ----------
    indices : ndarray of shape (m, top)
        Positions of the training points in `training`, which is the model's ``points_``.
    values : ndarray of shape (m, top)
        Their terms, by descending absolute value.
    kernel_values : ndarray of shape (m, top)
        The kernel values k(x, x_i) in these terms; for a model on random features, the inner
        products of features.
    rest : ndarray of shape (m,)
        The sum of the terms that are not shown.
    intercept : ndarray of shape (m,)
        The intercept of the function that each row explains.
    prediction : ndarray of shape (m,)
        The values f(x).
    training : Points
        The training points.
    rows : ndarray of shape (m, top)
        The row numbers of the training points in the X of ``fit``, including rows of weight zero.
        Rows passed to ``partial_fit`` and ``update`` continue the numbering. Landmarks that are not
        rows of X, because they were passed or learned, are numbered from 0, as in `indices`.
    outputs : ndarray of shape (m,)
        The function that each row explains: the label of a class, the level of a quantile, or the
        number of a target.
    kind : {"class", "quantile", "target", ""}
        The kind of `outputs`; empty if there is only one function.
    formula : str
        The formula of a term.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0], [9.0]], [1.0, 3.0, 5.0, 2.0]
    >>> model = mc.KernelRidge(mc.RBF(), alpha=0.1).fit(X, y)
    >>> contributions = model.contributions([1.9], top=2)
    >>> contributions.points(0).tolist()
    [[2.0], [0.0]]
    >>> print(contributions)
    row 0: f(x) = 4.701
      training row    k(x, x_i)  a_i k(x, x_i)
                 2        0.995         +2.346
                 0       0.1645        -0.2942
      2 others                       +0.008571
      intercept                          +2.64
    """

    indices: NDArray[np.intp]
    values: Array
    kernel_values: Array
    rest: Array
    intercept: Array
    prediction: Array
    training: Points
    rows: NDArray[np.intp]
    outputs: NDArray[Any]
    kind: str = ""
    formula: str = "a_i k(x, x_i)"

    def __len__(self) -> int:
        return len(self.prediction)

    def points(self, row: int) -> Any:
        """The training points of one row, as data of the type passed to ``fit``.

        Parameters
        ----------
        row : int
            The index of the prediction.

        Returns
        -------
        ndarray, sparse matrix, data frame or sequence
            As many rows as `indices` has columns, in its order.
        """
        return self.training[self.indices[row]].data

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Columns for a data frame, with one entry per row and training point.

        Returns
        -------
        dict of ndarray
            ``row``, ``output``, ``rank`` (from 0), ``index``, ``training_row``, ``kernel_value``
            and ``value``, each of length m * top.
        """
        m, top = self.indices.shape
        return {
            "row": np.repeat(np.arange(m), top),
            "output": np.repeat(self.outputs, top),
            "rank": np.tile(np.arange(top), m),
            "index": self.indices.ravel(),
            "training_row": self.rows.ravel(),
            "kernel_value": self.kernel_values.ravel(),
            "value": self.values.ravel(),
        }

    def __repr__(self) -> str:
        m, top = self.indices.shape
        return f"Contributions(m={m}, top={top}, training={self.training!r})"

    def __str__(self) -> str:
        lines = [self._table(row) for row in range(min(len(self), _ROWS_SHOWN))]
        hidden = len(self) - len(lines)
        return "\n".join([*lines, f"... and {hidden} more rows"] if hidden else lines)

    def _repr_html_(self) -> str:
        shown = range(min(len(self), _ROWS_SHOWN))
        hidden = len(self) - len(shown)
        more = f"<p>... and {hidden} more rows</p>" if hidden else ""
        return "".join(map(self._html_of, shown)) + more

    def _html_of(self, row: int) -> str:
        """One prediction as a table for notebooks."""
        terms = zip(self.rows[row], self.kernel_values[row], self.values[row], strict=True)
        lines = [[str(number), f"{value:.4g}", f"{term:+.4g}"] for number, value, term in terms]
        others = len(self.training) - self.indices.shape[1]
        lines += [[f"{others} others", "", f"{self.rest[row]:+.4g}"]] if others else []
        lines += [["intercept", "", f"{self.intercept[row]:+.4g}"]]
        return tables.as_html(["training row", "k(x, x_i)", self.formula], lines, self._head(row))

    def _head(self, row: int) -> str:
        named = f" of {self.kind} {self.outputs.tolist()[row]!r}" if self.kind else ""
        return f"row {row}: f(x){named} = {self.prediction[row]:.4g}"

    def _table(self, row: int) -> str:
        others = len(self.training) - self.indices.shape[1]
        terms = zip(self.rows[row], self.kernel_values[row], self.values[row], strict=True)
        lines = [
            self._head(row),
            f"  training row    k(x, x_i) {self.formula:>14}",
            *(f"  {number:12d} {value:12.4g} {term:+14.4g}" for number, value, term in terms),
        ]
        if others:
            lines.append(f"  {f'{others} others':25} {self.rest[row]:+14.4g}")
        return "\n".join([*lines, f"  {'intercept':25} {self.intercept[row]:+14.4g}"])
