"""Every kind of bad input is a typed error that states owner, value, rule and remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    DataTypeError,
    MemoryForecastError,
    MercerError,
    ParameterError,
    UnresolvedParameterError,
)

X = np.random.default_rng(8).normal(size=(6, 2))


def with_value(value: float) -> np.ndarray:
    bad = X.copy()
    bad[3, 1] = value
    return bad


CASES: list[tuple[Any, type[MercerError], str]] = [
    (
        lambda: mc.RBF()(with_value(np.nan)),
        DataError,
        r"NaN .*row 3, column 1.* RBF .*Impute or drop",
    ),
    (lambda: mc.RBF()(with_value(np.inf)), DataError, r"infinity .*row 3, column 1.* RBF .*Impute"),
    (lambda: mc.RBF()(X, with_value(-np.inf)), DataError, r"infinity .*RBF"),
    (lambda: mc.Linear().diag(with_value(np.nan)), DataError, r"NaN .*Linear"),
    (lambda: mc.RBF().gram(with_value(np.nan)), DataError, r"NaN .*RBF"),
    (lambda: mc.RBF()([[1.0, 2.0], [3.0]]), DataError, r"RBF .*different lengths \(from 1 to 2\)"),
    (lambda: mc.RBF()(X[:, 0]), DataError, r"RBF .*expected 2D array, got 1D.*reshape"),
    (lambda: mc.RBF()(X[:0]), DataError, r"0 sample.*RBF"),
    (lambda: mc.RBF()(X[:, :0]), DataError, r"0 feature.*RBF"),
    (lambda: mc.RBF()(X, X[:, :1]), DataError, r"2 .*columns.*1"),
    (lambda: mc.RBF()(X * 1j), DataTypeError, r"Complex data not supported by RBF"),
    (lambda: mc.RBF()(["abc", "d"]), DataTypeError, r"RBF .*list of str.*Spectrum"),
    (lambda: mc.RBF()([["a", "b"]]), DataTypeError, r"RBF .*Categorical\(\)"),
    (lambda: mc.RBF()(np.ma.masked_less(X, 0.0)), DataError, r"masked values.*fill or drop"),
    (lambda: mc.RBF()(None), DataTypeError, r"NoneType is not a collection of rows; pass"),
    (lambda: mc.RBF()("abc"), DataTypeError, r"single string"),
    (lambda: mc.Spectrum(2)(X), DataTypeError, r"Spectrum: row 0 .*not a string; pass a list"),
    (lambda: mc.Chi2()(X), DataError, r"Negative values .*Chi2 .*got -.*shift or clip"),
    (
        lambda: mc.RBF(0.0),
        ParameterError,
        r"RBF: length_scale = 0\.0 does not satisfy length_scale > 0; pass",
    ),
    (lambda: mc.RBF(-1), ParameterError, r"RBF: length_scale = -1\.0 does not satisfy .*; pass"),
    (lambda: mc.RBF([1.0, -2.0]), ParameterError, r"RBF: length_scale = \[1\.0, -2\.0\] does not"),
    (lambda: mc.RBF(np.nan), ParameterError, r"RBF: length_scale = nan is not finite; pass"),
    (
        lambda: mc.RBF("medium"),
        ParameterError,
        r"RBF: length_scale = 'medium' .*'median' or 'scale'",
    ),
    (
        lambda: mc.RBF(lengthscale=1),
        ParameterError,
        r"RBF: lengthscale .*did you mean length_scale",
    ),
    (
        lambda: mc.RBF("median")(X),
        UnresolvedParameterError,
        r"RBF: length_scale = 'median' .*call resolve",
    ),
    (lambda: mc.RBF("scale").theta, UnresolvedParameterError, r"'scale' is not resolved"),
    (
        lambda: mc.Polynomial(degree=0),
        ParameterError,
        r"Polynomial: degree = 0 does not satisfy degree >= 1",
    ),
    (
        lambda: mc.Polynomial(degree=1.5),
        ParameterError,
        r"Polynomial: degree = 1\.5 is not an integer",
    ),
    (
        lambda: mc.Tanimoto("cosine"),
        ParameterError,
        r"Tanimoto: form = 'cosine' is not one of 'dot'",
    ),
    (
        lambda: mc.ArcCosine(3),
        ParameterError,
        r"ArcCosine: order = 3 does not satisfy 0 <= order <= 2",
    ),
    (lambda: mc.RBF().with_theta([1.0, 2.0]), ParameterError, r"theta has shape \(2,\)"),
]


@pytest.mark.parametrize(("act", "error", "words"), CASES, ids=[words for *_, words in CASES])
def test_bad_input_is_explained(act: Any, error: type[MercerError], words: str) -> None:
    with pytest.raises(error, match=words):
        act()


def test_errors_are_the_builtin_ones_too() -> None:
    assert issubclass(DataError, ValueError)
    assert issubclass(ParameterError, ValueError)
    assert issubclass(DataTypeError, TypeError)
    assert issubclass(MemoryForecastError, MemoryError)


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10_000_000)
    big = np.zeros((20_000, 1), np.float32)
    for act in (lambda: mc.RBF()(big), lambda: mc.RBF().gram(big).toarray()):
        with pytest.raises(
            MemoryForecastError, match=r"20000.*1\.49 GiB.*9\.54 MiB.*(lazy|float32)"
        ):
            act()
    assert mc.RBF().gram(big)[:2, :2].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_the_owner_of_a_validation_is_named() -> None:
    with pytest.raises(DataError, match=r"KernelRidge: .*NaN"):
        mc.RBF().validate(with_value(np.nan), mc.KernelRidge())
    assert len(mc.RBF().validate(X)) == 6
