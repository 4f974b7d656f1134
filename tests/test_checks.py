"""Checks of numbers, counts, flags and choices, of names, and of ranges of data."""

from __future__ import annotations

import copy
import math
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer import checks
from mercer.exceptions import (
    DataError,
    ParameterError,
    ParameterTypeError,
    UnknownAttributeError,
)


@pytest.mark.parametrize(
    ("value", "number", "finite", "count"),
    [
        (2, True, True, True),
        (np.int8(2), True, True, True),
        (2.0, True, True, False),
        (0, True, True, False),
        (math.inf, True, False, False),
        (math.nan, True, False, False),
        (True, False, False, False),
        ("2", False, False, False),
        (2j, False, False, False),
        (None, False, False, False),
    ],
)
def test_kinds_of_values(value: Any, number: bool, finite: bool, count: bool) -> None:
    assert checks.is_number(value) is number
    assert checks.is_finite(value) is finite
    assert checks.is_count(value) is count


def test_bounds_are_open_or_closed() -> None:
    assert checks.require_number("Model", "tol", np.float64(0.5)) == 0.5
    assert checks.require_number("Model", "tol", 0, closed=True) == 0.0
    assert checks.require_number("Model", "C", math.inf, high=math.inf) == math.inf
    for value, options, rule in (
        (0.0, {}, "a finite number > 0;"),
        (math.inf, {}, "a finite number > 0;"),
        (math.nan, {"closed": True}, "a finite number >= 0;"),
        (1.5, {"high": 1.0}, "a finite number > 0 and <= 1;"),
    ):
        with pytest.raises(ParameterError, match=rf"^Model: tol = {value} is not {rule} pass"):
            checks.require_number("Model", "tol", value, **options)


def test_counts_flags_and_choices() -> None:
    assert checks.require_count("Model", "n", np.int64(3)) == 3
    with pytest.raises(ParameterError, match=r"Model: n = 1 is not a whole number >= 2; pass"):
        checks.require_count("Model", "n", 1, least=2)
    checks.require_flags(SimpleNamespace(a=True, b=np.False_), "a", "b")
    with pytest.raises(ParameterError, match=r"SimpleNamespace: b = 'no' is neither True nor"):
        checks.require_flags(SimpleNamespace(a=True, b="no"), "a", "b")
    checks.require_choice("Model", "psd", "clip", ("raise", "clip"))
    checks.require_choice("Model", "psd", np.str_("clip"), ("raise", "clip"))
    for value, options in (("flip", ("raise", "clip")), (1, (True, False))):
        with pytest.raises(ParameterError, match=rf"psd = {value!r} is unknown; pass one of"):
            checks.require_choice("Model", "psd", value, options)


def test_weights_of_more_than_twelve_decades_are_refused() -> None:
    checks.require_weight_range("Owner", 1e-12, 1.0)
    with pytest.raises(DataError, match=r"^Owner: positive sample weights reach from 9e-13 to 1,"):
        checks.require_weight_range("Owner", 9e-13, 1.0)


@pytest.mark.parametrize("largest", [1e-101, 1e101, np.inf])
def test_targets_of_absurd_size_are_refused(largest: float) -> None:
    text = r"^Owner: the largest target is .* below 1e-100 or above 1e\+100 can .*; divide y by"
    with pytest.raises(DataError, match=text):
        checks.require_target_range("Owner", largest)
    with pytest.raises(DataError, match=text):
        checks.require_target_range("Owner", np.array([1.0, largest]))
    checks.require_target_range("Owner", 0.0)
    checks.require_target_range("Owner", np.array([0.0, 1e-100, 1e100]))


def test_kernel_values_that_are_not_finite_are_refused() -> None:
    values = np.array([[1.0, 2.0], [2.0, 3.0]])
    assert checks.require_finite_values(values, "k") is values
    causes = {"infinity; scale the data": (np.inf, -np.inf), "NaN: its formula has": (np.nan,)}
    for cause, wrong in causes.items():
        for value in wrong:
            with pytest.raises(DataError, match=rf"^Model: 'k' gives {cause}"):
                checks.require_finite_values(np.array([1.0, value]), "k", "Model: ")


@pytest.mark.parametrize(
    ("family", "given", "advice"),
    [
        (mc.KernelRidge, {"n_jobs": 2}, r"use mercer\.threads\(n\)"),
        (mc.SVCSearch, {"n_jobs": 2}, r"use mercer\.threads\(n\)"),
        (mc.SVCSearch, {"kernel": "rbf"}, r"write estimator=mercer\.SVC\(kernel=\.\.\.\)"),
        (mc.SVCSearch, {"class_weight": "balanced"}, r"mercer\.SVC\(class_weight="),
        (mc.KernelRidge, {"verbose": 1}, r"set_callbacks\(sklearn\.callback\.ProgressBar"),
        (mc.KernelRidge, {"kernel_params": {}}, "in a kernel object"),
        (mc.GaussianProcessRegressor, {"alpha": 0.1}, "its name is noise"),
        (mc.GaussianProcessRegressor, {"n_restarts_optimizer": 1}, "its name is n_restarts"),
        (mc.GaussianProcessRegressor, {"optimizer": None}, "write learn=False"),
        (mc.GaussianProcessRegressor, {"n_targets": 1}, "y tells the number"),
        (mc.KernelLogisticRegression, {"C": 1.0}, "its name is alpha, which is 1 / C"),
        (mc.OneClassSVM, {"C": 1.0}, "C is not a parameter; the parameters are kernel, nu"),
        (mc.Nystrom, {"n_components": 3}, "its name is n_landmarks"),
    ],
    ids=str,
)
def test_other_spellings_are_answered(family: Any, given: dict[str, Any], advice: str) -> None:
    with pytest.raises(ParameterTypeError, match=advice) as raised:
        family(**given)
    assert str(raised.value).startswith(f"{family.__name__}: ")


FITTED = mc.KernelRidge(mc.RBF()).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (FITTED, "predit", "KernelRidge has no attribute 'predit'; did you mean predict?"),
        (FITTED, "dual_coeff_", "KernelRidge has no attribute 'dual_coeff_'; did you mean dual_"),
        (FITTED, "X_fit_", "KernelRidge has no attribute 'X_fit_'; did you mean points_?"),
        (FITTED, "predict_proba", "KernelRidge has no attribute 'predict_proba'."),
        (mc.SVC(), "support_", "SVC has no attribute 'support_' before it is fitted; call fit"),
        (mc.SVC(), "quite_another", "SVC has no attribute 'quite_another'."),
        (mc.solvers.Cholesky(), "obstacles", "Cholesky has no attribute 'obstacles'; did you mean"),
        (mc.Nystrom(), "fit_transfrom", "Nystrom has no attribute 'fit_transfrom'; did you mean"),
        (mc.RBF(), "grm", "RBF has no attribute 'grm'; did you mean gram?"),
        (mc.RBF(), "lengthscale", "RBF has no attribute 'lengthscale'; did you mean length_scale?"),
        (mc.RBF() + mc.Linear(), "length_scale", "did you mean rbf__length_scale?"),
    ],
)
def test_unknown_attributes_are_answered(owner: Any, name: str, message: str) -> None:
    assert not hasattr(owner, name)
    with pytest.raises(UnknownAttributeError) as raised:
        getattr(owner, name)
    assert message in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_an_attribute_that_raises_gives_its_own_reason() -> None:
    with pytest.raises(AttributeError, match="SVC has no predict_proba: probability=False"):
        _ = mc.SVC().predict_proba


def test_private_names_are_looked_up_as_usual() -> None:
    assert not hasattr(FITTED, "_no_such")
    assert copy.deepcopy(FITTED).alpha == FITTED.alpha
