"""Probabilities of classes, from scores of rows that a machine has not learned from.

The probabilities are softmax(b s) of the scores s, for two classes those of 0 and f: so they never
disagree with the prediction, which has the largest score. The one number b, an inverse temperature,
minimises the cross-entropy of the scores that each row gets from a machine fitted without it. Its
targets are Platt's: not 1 and 0, but what the rule of succession leaves to doubt,

    (N_c + 1) / (N_c + K) for the class c of a row, and 1 / (N_c + K) for each of the K - 1 others,

so that b stays finite where the scores separate the classes, however few the rows are.

References
----------
.. [1] J. Platt (2000). Probabilistic outputs for support vector machines. Advances in Large Margin
   Classifiers.
.. [2] C. Guo, G. Pleiss, Y. Sun, K. Weinberger (2017). On calibration of modern neural networks.
   International Conference on Machine Learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from mercer.models.svm.schemes import Codes

Array = NDArray[np.floating[Any]]

_BINS = 10
# Inverse temperatures, in units of the spread of the scores: beyond them, nothing changes.
_LOW, _HIGH = 1e-3, 1e3
# Logarithms so far apart are those of different probabilities, however they are rounded.
_APART = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Calibration:
    """From scores to probabilities.

    Attributes
    ----------
    slope : float
        The inverse temperature.
    error : float
        The expected calibration error: by how much the probability of the predicted class differs
        from the share of rows in which it is right, in ten bins of probability, weighted.
    """

    slope: float
    error: float

    @classmethod
    def of(cls, scores: Array, codes: Codes, weights: Array) -> Calibration:
        """The best for given scores.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, n_classes)
            Of rows that were not learned from.
        codes : ndarray of shape (n,)
            Their classes.
        weights : ndarray of shape (n,)
            Their weights.

        Returns
        -------
        Calibration
            The slope, with its error.
        """
        columns = as_columns(scores)
        unit = float(columns.std()) or 1.0
        relative = weights / weights.max()
        targets = relative[:, None] * smoothed(codes, weights, columns.shape[1])

        def entropy(logarithm: float) -> float:
            logs = log_softmax(np.exp(logarithm) / unit * columns, axis=1)
            return -float(np.vdot(targets, logs))

        found = minimize_scalar(entropy, bounds=(np.log(_LOW), np.log(_HIGH)), method="bounded")
        slope = float(np.exp(found.x) / unit)
        return cls(slope, calibration_error(log_softmax(slope * columns, axis=1), codes, weights))

    def log_probabilities(self, scores: Array) -> Array:
        """Logarithms of the probabilities.

        Parameters
        ----------
        scores : ndarray of shape (m,) or (m, n_classes)
            Values of the decision function.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Largest where the score is.
        """
        return np.asarray(log_softmax(self.slope * as_columns(scores), axis=1))


def with_largest(log_probabilities: Array, winners: Codes) -> Array:
    """Probabilities of which that of the predicted class is the largest, equal scores or not.

    Parameters
    ----------
    log_probabilities : ndarray of shape (m, n_classes)
        Logarithms, in which that of the predicted class is the largest up to rounding.
    winners : ndarray of shape (m,)
        The classes that are predicted.

    Returns
    -------
    ndarray of shape (m, n_classes)
        The same, but for a few units in the last place where classes tie.
    """
    rows = np.arange(len(winners))
    found = log_probabilities.astype(np.float64)
    found[rows, winners] = -np.inf
    others = found.max(axis=1)
    found[rows, winners] = np.maximum(log_probabilities[rows, winners], others + _APART)
    return found


def as_columns(scores: Array) -> Array:
    """Scores of two classes as those of 0 and f.

    Parameters
    ----------
    scores : ndarray of shape (n,) or (n, n_classes)
        The scores.

    Returns
    -------
    ndarray of shape (n, n_classes)
        One column for each class.
    """
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def smoothed(codes: Codes, weights: Array, n_classes: int) -> Array:
    """What is to be expected of rows like those of each class, after having seen so many.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        The classes.
    weights : ndarray of shape (n,)
        The weights of the rows, whose unit does not matter: of N rows of a class so many count as
        rows of equal weight would, which is (sum w)^2 / sum w^2.
    n_classes : int
        The number of classes.

    Returns
    -------
    ndarray of shape (n, n_classes)
        Rows that sum to 1.
    """
    largest = np.zeros(n_classes)
    np.maximum.at(largest, codes, weights)
    relative = weights / largest[codes]  # squares of weights may overflow
    sums, squares = (np.bincount(codes, values) for values in (relative, relative**2))
    doubt = 1.0 / (sums[codes] ** 2 / squares[codes] + n_classes)
    targets = np.repeat(doubt[:, None], n_classes, axis=1)
    targets[np.arange(len(codes)), codes] = 1.0 - (n_classes - 1) * doubt
    return targets


def calibration_error(log_probabilities: Array, codes: Codes, weights: Array) -> float:
    """The mean difference of confidence and accuracy over bins of confidence.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n, n_classes)
        Of the classes.
    codes : ndarray of shape (n,)
        The classes.
    weights : ndarray of shape (n,)
        The weights of the rows.

    Returns
    -------
    float
        Between 0 and 1.
    """
    predicted = np.argmax(log_probabilities, axis=1)
    confidence = np.exp(log_probabilities[np.arange(len(codes)), predicted])
    bins = np.minimum((confidence * _BINS).astype(np.intp), _BINS - 1)
    differences = np.bincount(bins, weights * ((predicted == codes) - confidence), _BINS)
    return float(np.abs(differences).sum() / weights.sum())
