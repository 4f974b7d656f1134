"""Errors and warnings are typed, and name owner, value, rule and remedy, wherever they arise."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import mercer as mc
from mercer.exceptions import (
    DataError,
    DataTypeError,
    IndexingError,
    MemoryForecastError,
    MercerError,
    NotDifferentiableError,
    NumericalWarning,
    ParameterError,
    ParameterTypeError,
    ValidityError,
    as_data_errors,
)
from mercer.features import TaylorRBF
from mercer.linalg.symmetric import asymmetry

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 3))
Y = X[:, 0]
X32 = X.astype(np.float32)
UNKNOWN = np.full((6, 6), np.nan)
RBF = mc.RBF()


def broken(value: float, dtype: Any = float) -> np.ndarray:
    data = X.astype(dtype)
    data[4, 2] = value
    return data


# The place of a value that is not finite -------------------------------------------------------

PLACES: list[tuple[Any, str]] = [
    (lambda: RBF.on(2)(broken(np.nan)), r"NaN \(first in row 4, column 2\); RBF needs"),
    (lambda: RBF.on(-1, 0)(broken(np.inf)), r"infinity \(first in row 4, column 2\)"),
    (lambda: RBF.on(slice(1, None))(broken(np.nan)), r"row 4, column 2\)"),
    (lambda: RBF.on(0).on(1)(broken(np.nan)[:, [0, 2]]), r"row 4, column 1\)"),
    (lambda: RBF.on(2)(sp.csr_array(broken(np.nan))), r"row 4, column 2\)"),
    (lambda: RBF.on(2)(broken(np.nan).tolist()), r"row 4, column 2\)"),
    (lambda: RBF.on(2)(broken(np.nan, object)), r"row 4, column 2\)"),
    (lambda: mc.ArcCosine(0).on(1, 2)(broken(np.nan)), r"NaN .*column 2\); ArcCosine"),
    (lambda: mc.ArcCosine(0).on(1, 2)(broken(np.inf)), r"infinity .*column 2\); ArcCosine"),
    (lambda: RBF.on("c")(frame(np.nan)), r"row 4, column 'c'\)"),
    (lambda: RBF.on(1, 2)(frame(np.inf)), r"row 4, column 'c'\)"),
    (lambda: RBF(frame(np.nan)), r"row 4, column 'c'\)"),
    (lambda: RBF.on(0).warp(np.sqrt)(np.full((2, 1), np.inf)), r"column 0 of what warp"),
    (lambda: (RBF.on(0) + RBF.on(2)).gram(broken(np.nan)), r"row 4, column 2\)"),
    (lambda: mc.KernelRidge(RBF.on("c")).fit(frame(np.nan), Y), r"KernelRidge: .*column 'c'\)"),
]


def frame(value: float) -> pd.DataFrame:
    return pd.DataFrame(broken(value), columns=["a", "b", "c"])


@pytest.mark.parametrize(("act", "words"), PLACES, ids=[words for _, words in PLACES])
def test_a_value_that_is_not_finite_is_placed_in_the_users_data(act: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        act()


# One row for each kind of bad input ------------------------------------------------------------


def ridge(**params: Any) -> Any:
    return mc.KernelRidge(RBF, **params).fit(X, Y)


CASES: list[tuple[Any, type[MercerError], type[Exception], str]] = [
    (lambda: RBF.with_theta("a"), ParameterError, ValueError, r"RBF: theta = 'a'.*; pass one"),
    (lambda: RBF.with_theta([[1], [2, 3]]), ParameterError, ValueError, r"RBF: theta = \[\[1\]"),
    (lambda: RBF.with_theta([np.nan]), ParameterError, ValueError, r"RBF: theta = \[nan\].*; pass"),
    (lambda: RBF.with_theta([1, 2]), ParameterError, ValueError, r"RBF: theta has shape \(2,\)"),
    (
        lambda: ridge(length_scales=5),
        ParameterError,
        ValueError,
        r'KernelRidge: length_scales = 5 .*; pass "auto", a list',
    ),
    (
        lambda: ridge(length_scales={"length_scale": 1.0}),
        ParameterError,
        ValueError,
        r"""KernelRidge: length_scales = \{'length_scale': 1.0\} .*; pass "auto", a list""",
    ),
    (
        lambda: ridge(length_scales={"length_scale": "median"}),
        ParameterError,
        ValueError,
        r"""'median'\} holds no values to try; pass "auto", a list""",
    ),
    (lambda: ridge(length_scales={3: [1.0]}), ParameterError, ValueError, r"\{3: \[1.0\]\} holds"),
    (
        lambda: ridge(fit_intercept="no"),
        ParameterError,
        ValueError,
        r"KernelRidge: fit_intercept = 'no' is neither True nor False; pass",
    ),
    (lambda: ridge(fit_intercept=1), ParameterError, ValueError, r"fit_intercept = 1 is neither"),
    (
        lambda: mc.threads(True).__enter__(),
        ParameterError,
        ValueError,
        r"threads\(n\): True is not a whole number of threads from 1 to 2147483647; pass",
    ),
    (
        lambda: mc.threads(np.inf).__enter__(),
        ParameterError,
        ValueError,
        r"threads\(n\): inf is not a whole",
    ),
    # The lazy matrix
    (
        lambda: RBF.gram(X)[0, 0, 0],
        IndexingError,
        IndexError,
        r"Gram\[\(0, 0, 0\)\]: the matrix has shape \(6, 6\); select rows and columns",
    ),
    (lambda: RBF.gram(X)[6], IndexingError, IndexError, r"Gram\[6\]: .*shape \(6, 6\); select"),
    (lambda: RBF.gram(X)["a"], IndexingError, IndexError, r"Gram\['a'\]: .*; select"),
    (lambda: RBF.gram(X).ridge(1.0)[0, 0, 0], IndexingError, IndexError, r"RidgedGram\[\(0, 0,"),
    (
        lambda: RBF.prepare(X)[7],
        IndexingError,
        IndexError,
        r"Points\[7\]: there are 6 rows; select",
    ),
    (
        lambda: RBF.gram(X) @ np.ones(4),
        DataError,
        ValueError,
        r"Gram @ V: V has shape \(4,\), but K has 6 columns; pass shape \(6,\)",
    ),
    (lambda: np.ones(4) @ RBF.gram(X), DataError, ValueError, r"Gram @ V: V has shape \(4,\)"),
    (lambda: RBF.gram(X).matvec(np.ones(4)), DataError, ValueError, r"Gram @ V: V has shape"),
    (lambda: RBF.gram(X).matmat(np.ones((4, 2))), DataError, ValueError, r"Gram @ V: V has"),
    (lambda: RBF.gram(X) @ np.ones((6, 1, 1)), DataError, ValueError, r"V has shape \(6, 1, 1\)"),
    (lambda: RBF.gram(X).ridge(1.0) @ np.ones(4), DataError, ValueError, r"RidgedGram @ V: V has"),
    (lambda: RBF.gram(X) @ "a", DataTypeError, TypeError, r"Gram: cannot multiply.*; pass real"),
    (lambda: RBF.gram(X) @ [[1], [1, 2]], DataTypeError, TypeError, r"Gram: cannot multiply"),
    (
        lambda: RBF.gram(X).against(np.ones(4)),
        DataError,
        ValueError,
        r"Gram.against: u and v have shapes \(4,\) and \(4,\), but the matrix.*; pass one target",
    ),
    (
        lambda: RBF.gram(X).ridge("a"),
        ParameterError,
        ValueError,
        r"Gram.ridge: alpha = 'a' .*; pas",
    ),
    (
        lambda: spectrum_and_numbers().input_gradient(),
        NotDifferentiableError,
        TypeError,
        r"Spectrum: it compares objects .*; use gradient\(\), which is in the parameters",
    ),
    (
        lambda: mc.Constant().gram([[1.0, 2.0], [3.0]]).input_gradient(),
        NotDifferentiableError,
        TypeError,
        r"Constant: the rows are not rows of numbers.*; pass a table",
    ),
    # Explicit maps
    (
        lambda: TaylorRBF(length_scale="scale").fit(X),
        ParameterError,
        ValueError,
        r"TaylorRBF: length_scale = 'scale' is not one positive number.*; pass one",
    ),
    (lambda: TaylorRBF().fit(broken(np.nan)), DataError, ValueError, r"TaylorRBF: .*NaN"),
    # The algebra
    (
        lambda: RBF + "a",
        ParameterTypeError,
        TypeError,
        r"kernel \+ str: .*must be a kernel or.*; w",
    ),
    (lambda: RBF * np.ones(2), ParameterTypeError, TypeError, r"kernel \* ndarray: .*; write"),
    (lambda: np.ones(2) * RBF, ParameterTypeError, TypeError, r"kernel \* ndarray: .*; write"),
    (lambda: True * RBF, ParameterTypeError, TypeError, r"kernel \* bool: .*; write"),
    (lambda: RBF + np.True_, ParameterTypeError, TypeError, r"kernel \+ bool"),
    (lambda: mc.Fixed("median") * RBF, ParameterTypeError, TypeError, r"kernel \* Fixed"),
    (lambda: RBF.on(1.5), ParameterTypeError, TypeError, r"on\(1.5\): a column is .*; pass"),
    (lambda: RBF.warp(3), ParameterTypeError, TypeError, r"warp\(3\): pass a function"),
    (
        lambda: RBF.polynomial([]),
        ParameterError,
        ValueError,
        r"PolynomialOf: coefficients = \[\] is empty; pass .* list",
    ),
    (lambda: RBF.polynomial(2.0), ParameterError, ValueError, r"polynomial\(2.0\): .*; pass \[c0"),
    (
        lambda: np.inf * RBF,
        ParameterError,
        ValueError,
        r"inf \* RBF\(\): the scale of a kernel must be finite.*; pass",
    ),
    (lambda: np.nan * RBF, ParameterError, ValueError, r"nan \* RBF\(\): .*must be >= 0.*; pass"),
    (
        lambda: 1e200 * (1e200 * RBF),
        ParameterError,
        ValueError,
        r"must be finite.*; pass a smaller",
    ),
    (
        lambda: RBF + np.nan,
        ParameterError,
        ValueError,
        r"kernel \+ nan: .*finite and >= 0.*; write",
    ),
    (
        lambda: mc.Periodic(period=[1, 2]),
        ParameterError,
        ValueError,
        r"Periodic: period = \[1.0, 2.0\] .*but period is a single number; pass a positive number",
    ),
    (
        lambda: mc.RBF(mc.Bounded(1, 0.5, 2)).replace(length_scale=5),
        ParameterError,
        ValueError,
        r"RBF: length_scale = 5.0 does not satisfy .* 0.5 <= value <= 2.0; pass a value inside",
    ),
    (
        lambda: mc.KernelRidge(mc.RBF(mc.Bounded(1, 0.5, 2)), length_scales=[1, 5]).fit(X, Y),
        ParameterError,
        ValueError,
        r"RBF: length_scale = 5.0 does not satisfy .* 0.5 <= value <= 2.0; pass",
    ),
    (
        lambda: mc.RBF(mc.Bounded([1, 1], [0, 0], [2, 2])).replace(length_scale=[1, 1, 1]),
        ParameterError,
        ValueError,
        r"RBF: length_scale = \[1.0, 1.0, 1.0\] has shape \(3,\) and the bounds .* shape \(2,\)",
    ),
    (
        lambda: mc.RBF(mc.Fixed(1.0)).replace(length_scale=None),
        ParameterError,
        ValueError,
        r"RBF: length_scale = None is not a number; pass",
    ),
    # Owners
    (lambda: RBF(None), DataTypeError, TypeError, r"RBF: a NoneType is not a collection.*; pass"),
    (
        lambda: RBF.on(7)(X),
        DataError,
        ValueError,
        r"RBF: column 7 .* 3 columns; select among 0 to 2",
    ),
    (lambda: RBF.on("z")(X), DataError, ValueError, r"RBF: column 'z' .*; pass a data frame"),
    (lambda: RBF.on("z")(frame(0.0)), DataError, ValueError, r"RBF: column 'z' is not in the data"),
    (
        lambda: RBF.on(0)([[1.0, 2.0], [3.0]]),
        DataError,
        ValueError,
        r"RBF: the rows have different lengths \(from 1 to 2\), .*; pass rows of one length",
    ),
    (lambda: RBF.on(0)([1.0, 2.0]), DataError, ValueError, r"RBF: columns were selected.*; .*pass"),
    (lambda: RBF(shapes()), DataError, ValueError, r"RBF: .*different shapes; pass rows"),
    (lambda: RBF.on(0)(shapes()), DataError, ValueError, r"RBF: .*different shapes; pass rows"),
    (
        lambda: mc.Categorical(1.0)([["x"], ["y", "z"]]),
        DataError,
        ValueError,
        r"Categorical: the rows have different lengths",
    ),
    (
        lambda: mc.FunctionKernel(lambda a, b: 1.0, pairwise=True).on(9)(X),
        DataError,
        ValueError,
        r"FunctionKernel: column 9",
    ),
    (
        lambda: mc.KernelRidge(RBF).fit(None, Y),
        DataTypeError,
        TypeError,
        r"KernelRidge: a None",
    ),
    (lambda: RBF(bytearray(b"abc")), DataTypeError, TypeError, r"RBF: a single string"),
    (lambda: RBF(np.float64(3.0)), DataTypeError, TypeError, r"RBF: a float64 is not a collection"),
    (
        lambda: RBF(pl.LazyFrame({"a": [1.0, 2.0]})),
        DataTypeError,
        TypeError,
        r"RBF: a LazyFrame has not been computed yet.*; pass X.collect\(\)",
    ),
    # Weights of gradients and products
    (
        lambda: RBF.gram(X).gradient(UNKNOWN),
        DataError,
        ValueError,
        r"Gram: the weights contain NaN",
    ),
    (
        lambda: RBF.gram(X).gradient((UNKNOWN, UNKNOWN)),
        DataError,
        ValueError,
        r"Gram: the weights contain NaN or infinity; pass finite",
    ),
    (
        lambda: RBF.gram(X).input_gradient(UNKNOWN),
        DataError,
        ValueError,
        r"Gram: the weights contain NaN",
    ),
    (
        lambda: RBF.gram(X32).gradient((np.full(6, 1e300), np.ones(6))),
        DataError,
        ValueError,
        r"Gram: the weights exceed the range of float32; rescale them, or pass float64 data",
    ),
    (
        lambda: RBF.gram(X) @ sp.csr_array(np.eye(6)),
        DataTypeError,
        TypeError,
        r"Gram: cannot multiply with a sparse matrix, .*; pass a dense array, such as V.toarray",
    ),
    (
        lambda: RBF.gram(X).gradient(sp.csr_array(np.eye(6))),
        DataTypeError,
        TypeError,
        r"Gram: .*sparse matrix.*toarray",
    ),
    (
        lambda: RBF.gram(X32) @ np.full(6, 1e300),
        DataError,
        ValueError,
        r"Gram @ V: entries of V exceed the range of float32; rescale V, or pass float64",
    ),
    (
        lambda: RBF.gram(X32).normal_matmat(np.full(6, 1e300)),
        DataError,
        ValueError,
        r"V exceed the range of float32",
    ),
    (
        lambda: RBF.gram(X).ridge(np.inf),
        ParameterError,
        ValueError,
        r"RidgedGram: a ridge of inf is not finite in float64; pass a smaller",
    ),
    (
        lambda: RBF.gram(X) + np.inf * sp.identity(6),
        ParameterError,
        ValueError,
        r"a ridge of inf is not finite",
    ),
    (
        lambda: RBF.gram(X32).ridge(1e39),
        ParameterError,
        ValueError,
        r"a ridge of 1e\+39 is not finite in float32",
    ),
    # Data that leave the range of their type
    (
        lambda: mc.RBF(1e-320)(X),
        DataError,
        ValueError,
        r"RBF: the data divided by their length-scale exceed the range of float64; rescale them "
        r"\(a larger length_scale does so\)\.$",
    ),
    (lambda: mc.Matern(1e-320).gram(X) @ Y, DataError, ValueError, r"Matern: the data divided by"),
    # Functions and classes of the user
    (lambda: RBF.warp(lambda A: None)(X), DataTypeError, TypeError, r"RBF.warp: .* returned None"),
    (
        lambda: RBF.warp(lambda A: 3)(X),
        DataTypeError,
        TypeError,
        r"RBF.warp: .* returned 3, which has no rows; it must return a table",
    ),
    (
        lambda: RBF.warp(lambda A: np.float64(3))(X),
        DataTypeError,
        TypeError,
        r"RBF.warp: .* which has no rows",
    ),
    (
        lambda: RBF.scaled_by(lambda A: "a")(X),
        DataTypeError,
        TypeError,
        r"scaled_by: .* returned 'a', which is not real numbers; it must return one number",
    ),
    (lambda: RBF.scaled_by(lambda A: None)(X[:1]), DataTypeError, TypeError, r"returned None"),
    (
        lambda: RBF.scaled_by(lambda A: A[:, 0] + 1j)(X),
        DataTypeError,
        TypeError,
        r"scaled_by: .* which is not real numbers",
    ),
    (lambda: Unready(2.0), ParameterError, ValueError, r"Unready: its __init__ .*; leave __init__"),
    (lambda: Silent(2.0)(X), ParameterError, ValueError, r"Silent: .* declare parameters as class"),
    (lambda: repr(Silent(2.0)), ParameterError, ValueError, r"Silent: its __init__"),
    # Operators are quoted as they bind
    (
        lambda: -2 * (RBF + mc.White()),
        ParameterError,
        ValueError,
        r"-2 \* \(RBF\(\) \+ White\(\)\): the scale",
    ),
    (
        lambda: (RBF + mc.White()) - (RBF + mc.Linear()),
        ParameterError,
        ValueError,
        r"\(RBF\(\) \+ White\(\)\) - \(RBF\(\) \+ Linear\(\)\): a difference",
    ),
    (lambda: RBF - 2.0 * RBF, ParameterError, ValueError, r"^RBF\(\) - 2.0 \* RBF\(\): a"),
    # Given matrices
    (
        lambda: mc.Precomputed()([[1, 2], [0, 1]]),
        ValidityError,
        ValueError,
        r"Precomputed is not symmetric: .* so pass \(K \+ K.T\) / 2, or mend the matrix",
    ),
    (
        lambda: mc.Precomputed([[1, 2], [0, 1]]),
        ValidityError,
        ValueError,
        r"pass \(K \+ K.T\) / 2",
    ),
    (
        lambda: mc.Precomputed(np.eye(3))([[0.5]]),
        DataError,
        ValueError,
        r"Precomputed\(K\): X holds 0.5, but must be one column .*; pass for example np.arange",
    ),
    (
        lambda: mc.Precomputed(np.eye(3))([[0, 1]]),
        DataError,
        ValueError,
        r"Precomputed\(K\): X has 2 columns, but must be one column",
    ),
    # Models
    (
        lambda: ridge().predict(X[:, :2]),
        DataError,
        ValueError,
        r"KernelRidge: X has 2 features.* Pass the columns that fit saw, in that order",
    ),
    (
        lambda: mc.KernelRidge(RBF).fit(frame(0.0), Y).predict(frame(0.0)[["b", "a", "c"]]),
        DataError,
        ValueError,
        r"(?s)KernelRidge: The feature names.*as they were in fit\.\nPass the columns that fit saw",
    ),
    (
        lambda: mc.KernelRidge(RBF).fit(X, np.full(6, np.nan)),
        DataError,
        ValueError,
        r"KernelRidge: Input y contains NaN\. Pass finite numbers as y",
    ),
    (
        lambda: mc.KernelRidge(RBF).fit(X, list("abcdef")),
        DataError,
        ValueError,
        r"KernelRidge: could not convert string to float: 'a'\. Pass finite numbers as y",
    ),
    (
        lambda: mc.KernelRidge(RBF).fit(X, Y, sample_weight=-np.ones(6)),
        DataError,
        ValueError,
        r"KernelRidge: Negative values .* Pass one finite weight >= 0 for each row",
    ),
    (
        lambda: mc.KernelRidge(RBF).fit(X, Y, sample_weight=np.zeros(6)),
        DataError,
        ValueError,
        r"KernelRidge: Sample weights must .* Pass one finite weight .* not all of them 0",
    ),
    # Parameters
    (
        lambda: mc.threads(2**31).__enter__(),
        ParameterError,
        ValueError,
        r"threads\(n\): 2147483648 is not a whole number of threads from 1 to 2147483647",
    ),
    *(
        (
            lambda weight=weight, name=name: mc.RBF(name).resolve(X, weight),
            DataError,
            ValueError,
            r"RBF: sample_weight = .* does not hold one finite weight >= 0 .*; pass such weights",
        )
        for weight in (-np.ones(6), np.ones(5), np.zeros(6), np.full(6, np.nan), 1.0, "a")
        for name in ("median", "scale")
    ),
]


class Unready(mc.Stationary):
    """Sets an attribute in place of a declaration."""

    def __init__(self, width: float) -> None:
        self.width = width

    def profile(self, r2: Any) -> Any:
        return np.exp(-r2)


class Silent(mc.Stationary):
    """Never calls the constructor of its base."""

    def __init__(self, width: float) -> None:
        pass

    def profile(self, r2: Any) -> Any:
        return np.exp(-r2)


def shapes() -> list[np.ndarray]:
    return [np.ones((2, 2)), np.ones((2, 2, 1))]


def spectrum_and_numbers() -> Any:
    data = pd.DataFrame({"s": ["abc", "abd"], "a": [1.0, 2.0]})
    return (mc.Spectrum(2).on("s") * mc.RBF().on("a")).gram(data)


@pytest.mark.parametrize(
    ("act", "error", "builtin", "words"), CASES, ids=[words for *_, words in CASES]
)
def test_bad_input_is_explained(
    act: Any, error: type[MercerError], builtin: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        act()
    assert isinstance(caught.value, builtin)


# Data that were refused and are welcome --------------------------------------------------------


def test_taylor_features_of_points() -> None:
    data = pd.DataFrame(X, columns=["a", "b", "c"])
    taylor = TaylorRBF(3).fit(RBF.prepare(data))
    assert_array_equal(taylor.feature_names_in_, ["a", "b", "c"])
    assert_allclose(taylor.transform(RBF.prepare(data)), TaylorRBF(3).fit(X).transform(X))
    assert_allclose(taylor.error_bound(RBF.prepare(data)), TaylorRBF(3).fit(X).error_bound(X))


# Targets of any size --------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_the_choice_of_alpha_does_not_depend_on_the_unit_of_y(criterion: str, unit: float) -> None:
    rows = RNG.normal(size=(40, 2))
    y = np.sin(rows[:, 0]) + 0.5 * RNG.normal(size=40)
    params = {"alpha": criterion, "length_scales": [0.3, 1.0, 3.0]}
    plain = mc.KernelRidge(RBF, **params).fit(rows, y)
    assert plain.alphas_[0] < plain.alpha_ < plain.alphas_[-1]
    scaled = mc.KernelRidge(RBF, **params).fit(rows, y * unit)
    assert (scaled.alpha_, scaled.kernel_) == (plain.alpha_, plain.kernel_)
    assert_allclose(scaled.predict(rows) / unit, plain.predict(rows), rtol=1e-9)


def test_coefficients_that_overflow() -> None:
    with pytest.raises(DataError, match=r"exceed the range of float32; divide y by"):
        mc.KernelRidge(RBF).fit(X.astype(np.float32), 1e60 * Y)


def test_a_search_without_a_defined_error() -> None:
    with pytest.raises(DataError, match=r"KernelRidge: no candidate has a finite loo.*; pass more"):
        mc.KernelRidge(RBF, "loo").fit(X, Y, sample_weight=[1.0, 0, 0, 0, 0, 0])


# Warnings and symmetry ------------------------------------------------------------------------


def test_the_warning_of_jitter_points_at_the_callers_line() -> None:
    rows = np.repeat(X, 2, axis=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mc.KernelRidge(RBF, alpha=1e-300).fit(rows, np.repeat(Y, 2))
    (warning,) = [w for w in caught if issubclass(w.category, NumericalWarning)]
    assert warning.filename == __file__


def test_asymmetry_against_the_whole_matrix() -> None:
    K = RNG.normal(size=(600, 600))
    gap = np.abs(K - K.T)
    found = asymmetry(K)
    assert found.size == gap.max() == gap[found.row, found.column]
    assert asymmetry(np.empty((0, 0))).size == 0.0
    assert asymmetry(K + K.T).size == 0.0


def test_errors_are_the_builtin_ones_too() -> None:
    assert issubclass(DataError, ValueError)
    assert issubclass(ParameterError, ValueError)
    assert issubclass(DataTypeError, TypeError)
    assert issubclass(MemoryForecastError, MemoryError)


def test_errors_about_data_become_errors_of_their_owner() -> None:
    words = r"^Model: no numbers\. Pass some\.$"
    with pytest.raises(DataError, match=words) as caught, as_data_errors("Model", "Pass some."):
        raise ValueError("no numbers")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ParameterError, match=r"^mine$"), as_data_errors("Model"):
        raise ParameterError("mine")


# Names of parameters -----------------------------------------------------------------------------

WRONG_NAMES: list[tuple[Any, dict[str, Any], str]] = [
    (mc.Nystrom, {"n_components": 10}, r"^Nystrom: n_components .*; its name is n_landmarks\."),
    (mc.solvers.NystromSolver, {"n_components": 10}, r"^NystromSolver: .* name is n_landmarks\."),
    (mc.GaussianProcessRegressor, {"alpha": 0.1}, r"^GaussianProcessRegressor: .* name is noise\."),
    (mc.GaussianProcessRegressor, {"n_restarts_optimizer": 3}, r"its name is n_restarts\."),
    (mc.GaussianProcessClassifier, {"foo": 1}, r"^GaussianProcessClassifier: foo is not a par"),
    (mc.OneClassSVM, {"foo": 1}, r"^OneClassSVM: foo is not a parameter; the parameters are kern"),
    (mc.RandomFourier, {"foo": 1}, r"^RandomFourier: foo is not a parameter; the parameters are"),
    (mc.SVCSearch, {"foo": 1}, r"^SVCSearch: foo is not a parameter; the parameters are estimator"),
    (TaylorRBF, {"foo": 1}, r"^TaylorRBF: foo is not a parameter; the parameters are degree, "),
    (mc.KernelRidge, {"alhpa": 1.0}, r"did you mean alpha\? The parameters are kernel, alpha"),
    (mc.solvers.Cholesky, {"rank": 3}, r"^Cholesky: rank is not a parameter; there are none\.$"),
    (mc.RBF, {"gamma": 0.5}, r"^RBF: gamma is not a parameter; write RBF\.from_gamma\(gamma\)\.$"),
    (
        mc.Polynomial,
        {"coef0": 1.0},
        r"its name is offset\. The parameters are degree, offset, gain",
    ),
]


@pytest.mark.parametrize(("cls", "values", "message"), WRONG_NAMES)
def test_unknown_names_of_parameters(cls: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        cls(**values)
    assert isinstance(caught.value, TypeError) or issubclass(cls, mc.Kernel)


@pytest.mark.parametrize("cls", sorted({cls for cls, _, _ in WRONG_NAMES}, key=repr))
def test_constructors_keep_their_signatures(cls: Any) -> None:
    own = inspect.signature(cls.__init__).parameters
    if not issubclass(cls, mc.Kernel):
        assert list(inspect.signature(cls).parameters) == list(own)[1:]
    made = cls()
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(copied) is cls
        assert repr(copied) == repr(made)
    if hasattr(made, "fit"):
        assert repr(clone(made)) == repr(made)


def test_a_subclass_may_pass_names_on() -> None:
    class Mine(mc.KernelRidge):
        def __init__(self, mine: int = 1, **others: Any) -> None:
            self.mine = mine
            super().__init__(**others)

    assert Mine(mine=2, alpha=3.0).alpha == 3.0
    with pytest.raises(TypeError, match="beta"):
        Mine(beta=1.0)


# Data of other shapes and kinds -------------------------------------------------------------------


def test_a_path_in_place_of_data() -> None:
    with pytest.raises(DataTypeError, match=r"^RBF: .* mercer\.read_blocks\(path\)"):
        RBF("data.csv")
    with pytest.raises(
        DataTypeError, match=r"^KernelRidge: a single .* mercer\.read_blocks\(path\)"
    ):
        mc.KernelRidge().fit("data.csv", Y)


def test_columns_that_fit_did_not_see() -> None:
    model = mc.KernelRidge(RBF.on(0) + RBF.on(2)).fit(X, Y)
    for narrow in (X[:, :2], sp.csr_array(X[:, :2])):
        with pytest.raises(DataError, match="has 2 features, but KernelRidge is expecting 3"):
            model.predict(narrow)
    with pytest.raises(DataError, match="infinity"):
        model.predict(broken(np.inf))


def test_targets_of_three_dimensions() -> None:
    with pytest.raises(DataError, match=r"y has shape \(6, 2, 2\) but X has 6 rows; pass one"):
        mc.KernelRidge().fit(X, np.ones((6, 2, 2)))


def test_columns_of_complex_numbers() -> None:
    with pytest.raises(DataTypeError, match=r"'a' holds objects of type complex; pass real num"):
        RBF(pd.DataFrame({"a": [1j, 2.0]}))


def test_a_warp_to_one_dimension() -> None:
    with pytest.raises(DataError, match=r"^RBF\.warp: .* shape \(6,\); it must return a table"):
        RBF.warp(lambda A: A[:, 0])(X)
    single = mc.FunctionKernel(lambda a, b: float(a * b), pairwise=True)
    assert_allclose(single.warp(lambda A: A[:, 0])(X), np.outer(Y, Y))


def test_numbers_of_columns_and_dimensions() -> None:
    with pytest.raises(ParameterError, match="has 2 values but the kernel sees 1 column; pass one"):
        mc.RBF([1.0, 2.0])(X[:, :1])
    with pytest.raises(ParameterError, match=r"of 2 dimensions, but .* at most 1 dimension;"):
        mc.RBF([[1.0, 2.0]])


def test_the_causes_of_values_that_are_not_finite() -> None:
    class Logarithm(mc.DotProduct):
        def profile(self, s: Any) -> Any:
            return np.log(s)

    with pytest.raises(DataError, match=r"^KernelRidge: Logarithm\(\) gives NaN: its formula has"):
        mc.KernelRidge(Logarithm()).fit(X, Y)
    with pytest.raises(DataError, match=r"^KernelRidge: .* gives infinity; scale the data"):
        mc.KernelRidge(mc.Linear().exp()).fit(100 * X, Y)
