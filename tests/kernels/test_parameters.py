"""Declarations and values, on toy classes that know nothing of kernels."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mercer as mc
from mercer.exceptions import (
    MercerError,
    ParameterError,
    UnresolvedParameterError,
)
from mercer.kernels.parameters import (
    Bounded,
    Choice,
    Fixed,
    Integer,
    NonNegative,
    Positive,
)
from mercer.kernels.tree import Parameterised
from parameter_trees import RBF, ArcCosine, Cauchy, Matern, Mixture, Scaled

# ------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    "value",
    [
        Fixed(2),
        Fixed([1, 2]),
        Fixed("median"),
        Bounded(1, 0, 2),
        Bounded([1, 2], [0, 1], 3),
        Bounded(1, -float("inf"), float("inf")),
        Bounded("median", 0.1, 10),
    ],
)
def test_values_are_equal_by_content_and_rebuilt_by_repr(value):
    for other in (eval(repr(value)), pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert other == value
        assert hash(other) == hash(value)
        if isinstance(other.value, np.ndarray):
            assert not other.value.flags.writeable
    assert value != RBF()


def test_fixed_and_bounded_differ():
    assert Fixed(1) != Fixed(2)
    assert Fixed(1) != Bounded(1, 0, 2)
    assert Bounded(1, 0, 2) != Bounded(1, 0, 3)
    assert Fixed([1, 2]) != Fixed([[1, 2]])
    assert Fixed(0.0) == Fixed(-0.0)
    assert hash(Fixed([0.0])) == hash(Fixed([-0.0]))


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        Fixed(1).value = 2


@pytest.mark.parametrize("bad", [True, None, float("nan"), [], [1, "a"], 1j, {1}, Fixed(1)])
def test_fixed_refuses_what_is_no_number(bad):
    with pytest.raises(ParameterError, match=r"^Fixed: value = .*; pass a number"):
        Fixed(bad)


def test_bounded_refuses_bad_bounds():
    with pytest.raises(ParameterError, match=r"value = 5.0 does not satisfy 0.1 <= value <= 2.0"):
        Bounded(5, 0.1, 2)
    with pytest.raises(ParameterError, match=r"low < high; pass wider bounds, or Fixed"):
        Bounded(1, 1, 1)
    with pytest.raises(ParameterError, match="not finite"):
        Bounded(1, float("nan"), 2)
    with pytest.raises(ParameterError, match=r"shapes \(2,\) and \(\)"):
        Bounded(1, [0, 0], 2)


# ------------------------------------------------------------------------------- declarations


def test_the_message_states_owner_value_rule_and_remedy():
    with pytest.raises(ParameterError) as error:
        Cauchy(alpha=-1)
    assert str(error.value) == (
        "Cauchy: alpha = -1.0 does not satisfy alpha > 0; "
        "pass a positive number (for example alpha=1.0)."
    )
    with pytest.raises(ParameterError) as error:
        RBF(0)
    assert str(error.value) == (
        "RBF: length_scale = 0.0 does not satisfy length_scale > 0; pass a positive number or "
        "one per column or 'median' or 'scale' (for example length_scale=1.0)."
    )


WRONG_SIGN = [0, -1.0, [1.0, -1.0], Fixed(-1), Bounded(1, -1, 2), Bounded(0, 0, 1)]
NOT_FINITE = [float("nan"), float("inf"), [1, np.nan], 10**400, Fixed(float("inf"))]
WRONG_SHAPE = [[], [[1.0]], [[1], [1, 2]], Fixed([[1.0]]), np.ones((200, 2))]
NO_NUMBER = [True, np.True_, [True, 1.0], np.array([True]), None, 1j, object(), {}, RBF()]
NO_HEURISTIC = ["mean", "1.0", np.array(["a"]), Fixed("mean")]


@pytest.mark.parametrize("bad", [*WRONG_SIGN, *NOT_FINITE, *WRONG_SHAPE, *NO_NUMBER, *NO_HEURISTIC])
def test_positive_refuses(bad):
    with pytest.raises(ParameterError, match=r"^RBF: length_scale"):
        RBF(bad)


@pytest.mark.parametrize("good", [2, 2.0, np.float32(2), np.int64(2), np.array(2), np.array(2.0)])
def test_numbers_become_floats(good):
    stored = RBF(good).length_scale
    assert type(stored) is float
    assert stored == 2.0


@pytest.mark.parametrize("good", [[1, 2], (1, 2), np.array([1, 2]), np.array([1, 2], "f4")])
def test_sequences_become_read_only_arrays(good):
    stored = RBF(good).length_scale
    assert stored.dtype == np.float64
    assert_array_equal(stored, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        stored[0] = 5


def test_arrays_are_copied():
    given = np.array([1.0, 2.0])
    kernel = RBF(given)
    given[0] = 9.0
    assert kernel.length_scale[0] == 1.0


def test_heuristics_are_plain_strings():
    assert type(RBF(np.str_("median")).length_scale) is str
    with pytest.raises(ParameterError, match="not a number"):
        Cauchy(alpha="median")


def test_non_negative_and_real():
    assert Scaled(RBF(), 0).scale == 0.0
    with pytest.raises(ParameterError, match="scale >= 0"):
        Scaled(RBF(), -1)
    assert_array_equal(Mixture(means=[[-1], [1]]).means, [[-1.0], [1.0]])
    with pytest.raises(
        ParameterError, match=r"means = .* of 3 dimension.* at most 2 dimension.*; pass"
    ):
        Mixture(means=[[[1.0]]])


def test_integer():
    assert type(ArcCosine(np.int64(2)).order) is int
    for bad in (1.0, True, "1", None, [1]):
        with pytest.raises(ParameterError, match="is not an integer; pass an integer"):
            ArcCosine(bad)
    for bad in (-1, 3):
        with pytest.raises(ParameterError, match="does not satisfy 0 <= order <= 2"):
            ArcCosine(bad)
    with pytest.raises(ParameterError, match="never learned"):
        ArcCosine(Fixed(1))
    assert Integer(low=1).validate("K", 5) == 5
    with pytest.raises(ParameterError, match="parameter >= 1; pass an integer"):
        Integer(low=1).validate("K", 0)
    with pytest.raises(ParameterError, match="parameter <= 1"):
        Integer(high=1).validate("K", 2)


def test_choice():
    assert type(Mixture(reduction=np.str_("product")).reduction) is str
    assert Mixture(centred=np.False_).centred is False
    for bad in ("mean", None, ["sum"], np.array(["sum", "sum"])):
        with pytest.raises(ParameterError, match="is not one of 'sum', 'product'; pass one"):
            Mixture(reduction=bad)
    with pytest.raises(ParameterError, match="is not one of True, False"):
        Mixture(centred=1)
    with pytest.raises(ParameterError, match="never learned"):
        Mixture(reduction=Fixed("sum"))


def test_what_is_not_learned_is_concrete():
    assert Matern(nu=float("inf")).nu == np.inf
    assert Matern().theta_names == ["length_scale"]
    assert "nu" not in Matern()._tree.values
    with pytest.raises(ParameterError, match=r"nu = Fixed.* is never learned"):
        Matern(nu=Fixed(1.5))


def test_infinity_is_not_free():
    class Wide(Parameterised):
        width = Positive(1.0, ndim=1, allow_infinity=True)

    assert Wide([1.0, np.inf]).theta_names == ["width[0]"]


def test_bounds_out_of_order_are_refused_where_they_are_written() -> None:
    with pytest.raises(ParameterError, match=r"Bounded: value = 5.0 does not satisfy 1.0 <= value"):
        mc.Bounded(5, 1, 2)


def test_declarations_that_allow_nothing() -> None:
    with pytest.raises(ParameterError, match=r"Integer: low = 3, high = 1 .*; pass"):
        Integer(low=3, high=1)
    with pytest.raises(ParameterError, match=r"Choice: options = \(\) .*; pass"):
        Choice()


@pytest.mark.parametrize(
    "declaration",
    [Positive(3.0), Positive(mc.Bounded(2.0, 1.5, 3.0)), NonNegative([0.0, 2.0], ndim=1)],
)
def test_the_example_in_a_remedy_is_allowed(declaration: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        declaration.validate("K", "bad")
    quoted = re.search(r"for example parameter=(.*)\)", str(caught.value))
    assert quoted is not None
    declaration.validate("K", eval(quoted[1]))
    assert quoted[1] != "1.0"


X = np.random.default_rng(8).normal(size=(6, 2))

REFUSED_PARAMETERS: list[tuple[Any, type[MercerError], str]] = [
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


@pytest.mark.parametrize(
    ("act", "error", "words"), REFUSED_PARAMETERS, ids=[words for *_, words in REFUSED_PARAMETERS]
)
def test_parameters_that_are_refused_are_explained(
    act: Any, error: type[MercerError], words: str
) -> None:
    with pytest.raises(error, match=words):
        act()
