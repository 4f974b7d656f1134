"""The infinite feature map of the RBF kernel, truncated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammainc, gammaln
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from mercer import checks
from mercer.checks import NamedArguments
from mercer.exceptions import ParameterError, as_data_errors
from mercer.kernels.containers import as_table
from mercer.kernels.points import Points
from mercer.maps.forecast import forecast
from mercer.maps.monomials import Floats, graded_features, polynomial_names


class TaylorRBF(TransformerMixin, NamedArguments, BaseEstimator):
    """The infinite feature map of the RBF kernel, truncated at a total degree.

    With x and z divided by the length-scale, exp(-|x - z|^2 / 2) is
    exp(-|x|^2 / 2) exp(-|z|^2 / 2) sum_t (x.z)^t / t!, so the features are
    exp(-|x|^2 / 2) x^a / sqrt(a!) over all exponents a (Cotter, Keshet and Srebro 2011). Their
    number is C(n_inputs + degree, degree), and the error grows with |x| |z|. The map suits few
    inputs, and data within a few length-scales of the origin, so centre the data first.

    Parameters
    ----------
    degree : int, default=4
        The largest total degree, at least 0.
    length_scale : float or array-like of shape (n_inputs,), default=1.0
        The length-scale of the RBF kernel, one for all inputs or one per input.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of input columns and, if X has names, their names.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import features
    >>> X = np.array([[0.3, -0.5], [1.0, 0.2]])
    >>> taylor = features.TaylorRBF(degree=12).fit(X)
    >>> Phi = taylor.transform(X)
    >>> K = np.exp(-((X[:, None] - X) ** 2).sum(-1) / 2)
    >>> bool((abs(Phi @ Phi.T - K) <= taylor.error_bound(X) + 1e-14).all())
    True
    """

    def __init__(self, degree: int = 4, length_scale: float | ArrayLike = 1.0) -> None:
        self.degree = degree
        self.length_scale = length_scale

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check the parameters against the number of input columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_inputs), or Points
            The points; only their number of columns is used.
        y : object, optional
            Ignored.

        Returns
        -------
        TaylorRBF
            The transformer itself.
        """
        points = self._validated(X, reset=True)
        self._degree()
        self._scales(points.shape[1])
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Compute the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_inputs)
            The points.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The features, columns as in :func:`polynomial_features`.
        """
        X, p = self._scaled(X), self._degree()
        n_samples, n_inputs = X.shape
        forecast("TaylorRBF", n_samples, math.comb(n_inputs + p, p), X.itemsize)
        # Multiply by the damping factor first: if it is 0, powers of a huge x must not overflow.
        damping = np.exp(-_half_norms(X))[:, None]
        return graded_features(X, damping, [1.0] * p, [1.0] * (p + 1), lowest=0)

    def error_bound(self, X: ArrayLike, Z: ArrayLike | None = None) -> NDArray[np.float64]:
        """Bound the truncation error of every entry, |Phi(x).Phi(z) - k(x, z)|.

        Let s = x.z after division by the length-scale, and p the degree. For s >= 0 the remainder
        of the exponential series is e^s P(p + 1, s), P the regularised incomplete gamma function,
        and the bound is the error itself. For s < 0 the remainder is at most
        |s|^(p + 1) / (p + 1)! (Lagrange). Both are multiplied by exp(-(|x|^2 + |z|^2) / 2).
        Rounding errors, of the order of the machine precision, are not included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_inputs)
            The points.
        Z : array-like of shape (m_samples, n_inputs), optional
            Other points; X itself by default.

        Returns
        -------
        ndarray of shape (n_samples, m_samples)
            One bound for each entry; its ``max()`` bounds them all.
        """
        X = self._scaled(X).astype(np.float64, copy=False)
        Z = X if Z is None else self._scaled(Z).astype(np.float64, copy=False)
        order = self._degree() + 1
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            s = X @ Z.T
            # Compute distances directly, as s - (|x|^2 + |z|^2) / 2 cancels far from the origin.
            remainder = np.exp(-cdist(X, Z, "sqeuclidean") / 2) * gammainc(order, np.maximum(s, 0))
            log_lagrange = order * np.log(np.abs(s)) - gammaln(order + 1)
            half_norms = _half_norms(X)[:, None] + _half_norms(Z)
            lagrange = np.exp(log_lagrange - half_norms)
        # Both kernels lie in [-1, 1], which bounds the error where squares of X overflow to NaN.
        bound: NDArray[np.float64] = np.fmin(np.where(s >= 0, remainder, lagrange), 2.0)
        return bound

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Name the features by their monomials.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names of the input columns; by default the names passed to `fit`, or x0, x1, ...

        Returns
        -------
        ndarray of str
            One name per feature, without the common factor exp(-|x|^2 / 2).
        """
        check_is_fitted(self, "n_features_in_")
        inputs = list(_check_feature_names_in(self, input_features))
        return np.asarray(polynomial_names(inputs, self._degree()), dtype=object)

    def _scaled(self, X: ArrayLike) -> Floats:
        check_is_fitted(self, "n_features_in_")
        points = self._validated(X, reset=False)
        return (points / self._scales(points.shape[1])).astype(points.dtype, copy=False)

    def _validated(self, X: Any, reset: bool) -> Floats:
        with as_data_errors("TaylorRBF"):
            data = X.data if isinstance(X, Points) else as_table(X)
            points: Floats = validate_data(self, data, dtype=[np.float64, np.float32], reset=reset)
        return points

    def _degree(self) -> int:
        return checks.require_count("TaylorRBF", "degree", self.degree, least=0, example=4)

    def _scales(self, n_inputs: int) -> NDArray[np.float64]:
        try:
            scales = np.asarray(self.length_scale, dtype=np.float64)
        except (TypeError, ValueError):
            scales = np.asarray(np.nan)
        if scales.shape not in ((), (n_inputs,)) or not (np.isfinite(scales) & (scales > 0)).all():
            raise ParameterError(
                f"TaylorRBF: length_scale = {self.length_scale!r} is not one positive number or "
                f"{n_inputs} of them; pass one, or one for each input column (for a heuristic, "
                'mercer.RBF("scale").resolve(X).length_scale).'
            )
        return scales

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _half_norms(X: Floats) -> Floats:
    with np.errstate(over="ignore"):
        norms: Floats = np.einsum("ij,ij->i", X, X)
    return norms / 2
