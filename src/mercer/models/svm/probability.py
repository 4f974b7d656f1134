"""Probabilities of classes, from values at rows that a machine has not learned from.

Each function f of two classes has the odds exp(a f + b). The slope a and the offset b minimise the
cross-entropy of the values that each row gets from a machine fitted without it [1]_. The targets
are Platt's: not 1 and 0, but by the rule of succession

    (N + 1) / (N + 2) for the side of a row, which has N rows, and 1 / (N + 2) for the other,

so that the slope stays finite where the values separate the sides, however few the rows are. The
slope is always positive: a larger f is never less probable. The scheme of the functions turns the
odds of several functions into probabilities of classes.

References
----------
.. [1] J. Platt (2000). Probabilistic outputs for support vector machines. Advances in Large Margin
   Classifiers.
.. [2] H.-T. Lin, C.-J. Lin, R. Weng (2007). A note on Platt's probabilistic outputs for support
   vector machines. Machine Learning 68.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.model_selection import StratifiedKFold

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.models.svm.base import LARGEST_COST, Training, solve_duals
from mercer.models.svm.duals import DualSolutions, stretches
from mercer.models.svm.fit_warnings import warn_of_folds
from mercer.models.svm.schemes import Codes, Pairs, PairValues, Scheme, Sides
from mercer.parallel import single_blas
from mercer.sampling import blocks, random_numbers, spread
from mercer.solvers.box_qp.kernel_matrix import SymmetricMatrix

# Number of parts of the rows that are left out in turn.
_FOLDS = 5
# Largest number of values of functions from which the calibration error is computed.
_MOST_VALUES = 2**24
# Number of bins of the calibration error.
_BINS = 10
# The least slope, for values of mean 0 and variance 1.
_LEAST = 1e-3
# Newton's method ends where a step gains less than this per row.
_GAIN = 1e-15
# Largest number of Newton steps.
_STEPS = 100
# Increase of the cross-entropy per row that may be rounding.
_NOISE = 1e-13
# Largest number of halvings of a step.
_HALVINGS = 40
# Logarithms of probabilities that differ by less may differ by rounding alone.
_ROUNDING = 1e-14
# Logarithms that differ by this are those of different probabilities, however they are rounded.
_APART = 4 * float(np.finfo(np.float64).eps)


def calibrated(
    model: Any, matrix: SymmetricMatrix, data: Training, solutions: DualSolutions
) -> tuple[Calibration, float]:
    """Probabilities from values of machines that were fitted without the rows, and their error.

    The machines start from the solutions for all rows.
    """
    owner, scheme, codes = type(model).__name__, model._scheme, data.codes
    warm_start = solutions.coefficients(matrix.size)
    folds: list[tuple[Codes, DualSolutions]] = []
    for train, held in _splits(owner, codes, model.random_state):
        functions = solve_duals(
            matrix,
            model._dual(data.subset(train)),
            model._options,
            warm_start=warm_start,
            eval_rows=None if isinstance(scheme, Pairs) else data.rows[held],
        )
        folds.append((held, functions))
    warn_of_folds(owner, sum(int((~functions.converged).sum()) for _, functions in folds))

    def held_out(chosen: Codes) -> Iterator[tuple[Codes, Array]]:
        for held, functions in folds:  # the last value of a row counts
            yield from _values_at(chosen, held, functions, matrix, data)

    costs = np.nan_to_num(model._costs(), posinf=LARGEST_COST)
    weights = data.weights / data.weights.max() * (costs / costs.max())[codes]

    sides = scheme.sides(codes)
    own, by_row = np.empty(len(sides.positions)), np.argsort(sides.positions, kind="stable")
    functions_of_terms = np.repeat(np.arange(len(sides.sizes)), sides.sizes)
    counts = np.bincount(sides.positions, minlength=len(codes))
    begins = np.cumsum(counts) - counts
    for rows, values in held_out(np.arange(len(codes))):
        terms = by_row[stretches(begins[rows], counts[rows])]
        places = np.repeat(np.arange(len(rows)), counts[rows])
        own[terms] = values[places, functions_of_terms[terms]]
    calibration = Calibration.best(scheme, own, sides, weights)

    sample = spread(len(codes), max(1, _MOST_VALUES // len(sides.sizes)))
    logs = np.full((len(codes), scheme.n_classes), np.nan)
    for rows, values in held_out(sample):
        logs[rows] = calibration.coupled(values)
    return calibration, calibration_error(logs[sample], codes[sample], weights[sample])


def _values_at(
    chosen: Codes, held: Codes, functions: DualSolutions, matrix: SymmetricMatrix, data: Training
) -> Iterator[tuple[Codes, Array]]:
    """Chosen rows of those held out, and the values of all functions there, a few at a time."""
    is_chosen = np.isin(held, chosen)
    rows = held[is_chosen]
    if functions.products is not None:
        yield rows, functions.values[is_chosen]
        return
    coefficients = functions.coefficients(matrix.size)
    support = np.flatnonzero(np.diff(coefficients.indptr))
    support = support[np.argsort(data.codes_of(support), kind="stable")]
    codes, n_classes = data.codes_of(support), int(data.codes.max()) + 1
    dual = Pairs(n_classes).layout(coefficients[support], codes)
    pairs = PairValues(dual, np.bincount(codes, minlength=n_classes), functions.intercept)
    with single_blas():  # products with the points of one class are small
        for part in blocks(len(rows), len(support)):
            begin = part.start
            for values in pairs.parts(matrix.cross(support, data.rows[rows[part]]).T):
                yield rows[begin : begin + len(values)], values
                begin += len(values)


def _splits(owner: str, codes: Codes, random_state: Any) -> Iterator[tuple[Codes, Codes]]:
    """Rows to learn from, and rows that are left out.

    A class with a single row keeps it: its value is that of machines that have learned it.
    """
    counts = np.bincount(codes)
    several, single = np.flatnonzero(counts[codes] > 1), np.flatnonzero(counts[codes] == 1)
    if not len(several):
        raise DataError(
            f"{owner}: probabilities are learned from rows that are left out, and every class has "
            "a single row; pass two or more, or probability=False."
        )
    rng = random_numbers(random_state, owner)
    fewest = int(counts[codes[several]].min())
    folds = StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=rng)
    for _, held in folds.split(np.empty((len(several), 0)), codes[several]):
        train = np.setdiff1d(np.arange(len(codes)), several[held])
        yield train, np.concatenate([several[held], single])


@dataclass(frozen=True)
class Calibration:
    """From values of functions to probabilities."""

    scheme: Scheme  # how the functions tell the classes apart
    slopes: Array  # (n_functions,): the a of the log-odds a f + b
    offsets: Array  # (n_functions,): the b of the log-odds a f + b

    @classmethod
    def best(cls, scheme: Scheme, own: Array, sides: Sides, weights: Array) -> Calibration:
        """The slopes and offsets of least cross-entropy.

        `own` has the value of each row in each function that learns from it, in the order of sides.
        """
        return cls(scheme, *Sigmoids(own, sides, weights).best())

    def coupled(self, values: Array) -> Array:
        """Logarithms of the probabilities."""
        return self.scheme.coupled(self.slopes * values + self.offsets)

    def log_probabilities(self, values: Array) -> NDArray[np.float64]:
        """Logarithms of the probabilities; one is the largest in each row, even when rounded."""
        coupled, rows = self.coupled(values), np.arange(len(values))
        # Of classes that tie, the first gets the largest probability.
        largest = coupled.max(axis=1)
        first = np.argmax(coupled >= largest[:, None] - _ROUNDING, axis=1)
        distinct = coupled.astype(np.float64)
        distinct[rows, first] = -np.inf
        others = distinct.max(axis=1)
        distinct[rows, first] = np.maximum(coupled[rows, first], others + _APART)
        return distinct


class Sigmoids:
    """Logistic regressions on function values, side by side: each value belongs to one problem."""

    def __init__(self, own: Array, sides: Sides, weights: Array) -> None:
        rows, signs, sizes = sides
        self.which = np.repeat(np.arange(len(sizes)), sizes)  # the problem of each value
        self.weights = weights[rows]
        self._sums = self._total(np.ones(len(own)))
        # Values are standardised to mean 0 and variance 1 in each problem.
        self.centres = self._total(own) / self._sums
        centred = own - self.centres[self.which]
        deviations = np.sqrt(self._total(centred**2) / self._sums)
        self.units = np.where(deviations > 0, deviations, 1.0)
        self.values = centred / self.units[self.which]
        # Platt's targets: probabilities of the positive side by the rule of succession.
        groups = 2 * self.which + (signs > 0)
        sums, squares = (np.bincount(groups, self.weights**power) for power in (1, 2))
        least = 1.0 / (sums[groups] ** 2 / squares[groups] + 2)
        self.targets = np.where(signs > 0, 1.0 - least, least)

    def best(self) -> tuple[Array, Array]:
        """Slopes and offsets that minimise the cross-entropies."""
        start = np.zeros_like(self._sums), logit(self._total(self.targets) / self._sums)
        slopes, offsets = self._newton(*start, np.ones(len(self._sums), dtype=bool))
        free = slopes > _LEAST
        if not free.all():
            slopes, offsets = self._newton(np.where(free, slopes, _LEAST), offsets, free)
        slopes = slopes / self.units
        return slopes, offsets - slopes * self.centres

    def _total(self, terms: Array) -> Array:
        """Weighted sums of each problem."""
        return np.asarray(np.bincount(self.which, self.weights * terms), dtype=np.float64)

    def _entropies(self, slopes: Array, offsets: Array) -> Array:
        odds = slopes[self.which] * self.values + offsets[self.which]
        return self._total(np.logaddexp(0, odds) - self.targets * odds)

    def _newton(
        self, slopes: Array, offsets: Array, free: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """Newton's method for all problems at once, in some of which the slope stays [2]_."""
        entropies = self._entropies(slopes, offsets)
        for _ in range(_STEPS):
            along, up, gains = self._step(slopes, offsets, free)
            sizes = np.where(gains > _GAIN * self._sums, 1.0, 0.0)
            if not sizes.any():
                break
            for _ in range(_HALVINGS):
                tried = slopes + sizes * along, offsets + sizes * up
                tried_entropies = self._entropies(*tried)
                worse = tried_entropies > entropies + _NOISE * self._sums
                if not worse.any():
                    break
                sizes[worse] /= 2
            (slopes, offsets), entropies = tried, tried_entropies
        return slopes, offsets

    def _step(
        self, slopes: Array, offsets: Array, free: NDArray[np.bool_]
    ) -> tuple[Array, Array, Array]:
        """The steps of slopes and offsets, and what they gain to second order."""
        probabilities = expit(slopes[self.which] * self.values + offsets[self.which])
        residuals = self.targets - probabilities
        curvature = probabilities * (1 - probabilities)
        ridge = 1e-12 * self._sums
        first, second = self._total(residuals * self.values) * free, self._total(residuals)
        high = self._total(curvature * self.values**2) + ridge
        cross = self._total(curvature * self.values) * free
        low = self._total(curvature) + ridge
        determinant = high * low - cross**2
        along = (low * first - cross * second) / determinant
        up = (high * second - cross * first) / determinant
        return along, up, first * along + second * up


def calibration_error(log_probabilities: Array, codes: Codes, weights: Array) -> float:
    r"""The class-wise calibration error: how far probabilities are from shares, in bins.

    .. math:: \tfrac12 \sum_c \sum_b \left| \sum_{i: p_{ic} \in b} w_i ([y_i = c] - p_{ic}) \right|
        \Big/ \sum_i w_i

    with ten bins b of equal width: the sum over classes keeps apart the errors of different
    classes, which would cancel in bins of the probability of whatever class is predicted.
    """
    probabilities = np.exp(log_probabilities)
    n_classes = probabilities.shape[1]
    relative = weights / weights.max()
    bins = np.minimum((probabilities * _BINS).astype(np.intp), _BINS - 1)
    places = bins + _BINS * np.arange(n_classes)
    missing = relative[:, None] * (np.eye(n_classes)[codes] - probabilities)
    differences = np.bincount(places.ravel(), missing.ravel())
    return float(np.abs(differences).sum() / (2 * relative.sum()))
