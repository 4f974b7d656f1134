"""Declarations, values and the tree, on toy classes that know nothing of kernels."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mercer.exceptions import ParameterError, UnresolvedParameterError
from mercer.kernels.parameters import (
    Bounded,
    Child,
    Children,
    Choice,
    Fixed,
    Integer,
    NonNegative,
    Part,
    Positive,
    Real,
)
from mercer.kernels.tree import Parameterised, kind, named_children, with_values


class RBF(Parameterised):
    length_scale = Positive(1.0, per_column=True, heuristics=("median", "scale"))


class Cauchy(RBF):
    alpha = Positive(1.0)


class RationalQuadratic(RBF):
    alpha = Positive(1.0)


class ArcCosine(Parameterised):
    order = Integer(0, low=0, high=2)


class Chi2(Parameterised):
    gamma = Positive()


class Matern(RBF):
    nu = Positive(1.5, learned=False, allow_infinity=True)


class Mixture(Parameterised):
    weights = NonNegative([0.5, 0.5], ndim=1)
    means = Real([[0.0], [1.0]], ndim=2)
    reduction = Choice("sum", ("sum", "product"))
    centred = Choice(True, (True, False))

    def _check(self):
        if np.shape(self.weights)[0] != np.shape(self.means)[0]:
            raise ParameterError("Mixture: weights and means differ in length; pass equal ones.")


class Scaled(Parameterised):
    kernel = Child()
    scale = NonNegative(1.0)


class On(Parameterised):
    kernel = Child()
    columns = Part(())


class PolynomialOf(Parameterised):
    _kind = "polynomial"
    kernel = Child()
    coefficients = NonNegative([1.0, 1.0], ndim=1)


class Sum(Parameterised):
    kernels = Children()

    def __init__(self, *kernels):
        super().__init__(kernels=kernels)

    def __repr__(self):
        return f"Sum({', '.join(map(repr, self.kernels))})"


class Product(Sum):
    def __repr__(self):
        return f"Product({', '.join(map(repr, self.kernels))})"


def nested():
    first = Scaled(On(RBF([1.0, 2.0]), ("a", "b")), 2.0)
    second = Product(Cauchy(Fixed(3.0), 0.5), ArcCosine(1))
    return Scaled(Sum(first, second, RBF(Bounded(0.5, 0.1, 1.0))), Fixed(4.0))


EVERY = [
    RBF(),
    RBF("median"),
    RBF([1, 2, 3]),
    RBF(Fixed([1, 2])),
    RBF(Fixed("scale")),
    Cauchy(0.1, Bounded(1, 0, float("inf"))),
    Matern(nu=float("inf")),
    Mixture([0.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], "product", False),
    Chi2(2),
    Scaled(Scaled(RBF(), 2.0), 3.0),
    PolynomialOf(RBF(), [0.0, 1.0, 0.5]),
    nested(),
]


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
    assert "nu" not in Matern().parameter_values()
    with pytest.raises(ParameterError, match=r"nu = Fixed.* is never learned"):
        Matern(nu=Fixed(1.5))


def test_infinity_is_not_free():
    class Wide(Parameterised):
        width = Positive(1.0, ndim=1, allow_infinity=True)

    assert Wide([1.0, np.inf]).theta_names == ["width[0]"]


# ---------------------------------------------------------------------------------- the class


def test_declarations_are_collected_bases_first_and_a_new_one_moves():
    class Moved(Cauchy):
        length_scale = Positive(2.0)

    class Dropped(Cauchy):
        alpha = None

    assert list(inspect.signature(Cauchy).parameters) == ["length_scale", "alpha"]
    assert list(inspect.signature(Moved).parameters) == ["alpha", "length_scale"]
    assert list(inspect.signature(Dropped).parameters) == ["length_scale"]
    assert Moved().length_scale == 2.0
    assert Moved(3.0).alpha == 3.0
    assert isinstance(Cauchy.alpha, Positive)


def test_a_required_parameter_after_a_default_is_keyword_only():
    class Late(RBF):
        period = Positive()

    assert str(inspect.signature(Late)) == "(length_scale=1.0, *, period)"
    assert Late(2.0, period=3.0).period == 3.0
    with pytest.raises(ParameterError, match="2 positional values were given"):
        Late(2.0, 3.0)


def test_an_own_constructor_has_its_own_signature():
    assert str(inspect.signature(Sum)) == "(*kernels)"
    assert str(inspect.signature(Product)) == "(*kernels)"


def test_the_constructor_refuses():
    with pytest.raises(ParameterError, match=r"lenght_scale is not .*did you mean length_scale\?"):
        RBF(lenght_scale=1)
    with pytest.raises(ParameterError, match=r"gamma is not .*; the parameters are length_scale"):
        RBF(gamma=1)
    with pytest.raises(ParameterError, match="given twice"):
        RBF(1.0, length_scale=1.0)
    with pytest.raises(ParameterError, match="gamma is required"):
        Chi2()
    with pytest.raises(ParameterError, match="differ in length"):
        Mixture([1.0, 1.0, 1.0])


@pytest.mark.parametrize("name", ["theta", "replace", "_private", "a__b"])
def test_a_class_refuses_names_that_are_taken(name):
    with pytest.raises(ParameterError, match="choose another name"):
        type("Bad", (Parameterised,), {name: Positive(1.0)})


def test_a_class_refuses_bad_declarations():
    shared = Positive(1.0)
    with pytest.raises(ParameterError, match="a shares its declaration with b"):
        type("Bad", (Parameterised,), {"a": shared, "b": shared})
    with pytest.raises(ParameterError, match=r"Bad: a = -1.0"):
        type("Bad", (Parameterised,), {"a": Positive(-1)})


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_value_semantics(kernel):
    for other in (eval(repr(kernel)), pickle.loads(pickle.dumps(kernel))):
        assert other == kernel
        assert hash(other) == hash(kernel)
        assert other.get_params().keys() == kernel.get_params().keys()
        for entry in other.parameters().values():
            assert not isinstance(entry.value, np.ndarray) or not entry.value.flags.writeable
    assert copy.copy(kernel) is copy.deepcopy(kernel) is clone(kernel) is kernel
    assert kernel.replace() is kernel


def test_all_kernels_differ():
    assert len(set(EVERY)) == len(EVERY)
    assert RBF() != Cauchy()
    assert RBF(Fixed(1)) != RBF(1)
    assert RBF([1.0]) != RBF(1.0)
    assert RBF() != "RBF()"
    assert Cauchy(alpha=1) == Cauchy(alpha=1.0) == Cauchy()


def test_repr_shows_what_is_not_default():
    assert repr(RBF()) == repr(RBF(1)) == "RBF()"
    assert repr(RBF(np.array([1, 2]))) == "RBF(length_scale=[1.0, 2.0])"
    assert repr(RBF(Fixed(1))) == "RBF(length_scale=Fixed(1.0))"
    assert repr(Matern(nu=np.inf)) == 'Matern(nu=float("inf"))'
    assert repr(Chi2(2)) == "Chi2(gamma=2.0)"


def test_immutable():
    kernel = RBF()
    with pytest.raises(AttributeError, match=r"immutable.*replace\(length_scale=...\)"):
        kernel.length_scale = 2.0
    with pytest.raises(AttributeError, match="replace"):
        kernel.other = 2.0
    with pytest.raises(AttributeError, match="replace"):
        del kernel.length_scale
    with pytest.raises(AttributeError, match="replace"):
        kernel.set_params(length_scale=2.0)
    assert kernel == RBF()


def test_reading_unwraps_and_declared_does_not():
    kernel = RBF(Fixed(2))
    assert kernel.length_scale == 2.0
    assert kernel.declared("length_scale") == Fixed(2.0)
    with pytest.raises(ParameterError, match="alpha is not a parameter"):
        kernel.declared("alpha")


def test_with_values_takes_anything():
    symbol = object()
    kernel = Cauchy(2.0)
    traced = with_values(kernel, alpha=symbol)
    assert traced.alpha is symbol
    assert traced.length_scale == 2.0
    assert kernel.alpha == 1.0


def test_parts_are_left_alone():
    given = np.zeros(3)
    kernel = On(RBF(), given).replace(length_scale=2)
    assert kernel.columns is given
    assert given.flags.writeable
    assert kernel == On(RBF(2), np.zeros(3))


# ----------------------------------------------------------------------------------- the tree


def test_kinds():
    kernels = [RBF(), RationalQuadratic(), ArcCosine(), Chi2(1.0)]
    assert named_children(kernels) == ["rbf", "rational_quadratic", "arc_cosine", "chi2"]
    wrapped = [RBF(), Chi2(1), Scaled(On(RBF())), PolynomialOf(RBF())]
    assert named_children(wrapped) == ["rbf_1", "chi2", "rbf_2", "rbf_3"]
    assert kind(Scaled(Sum(RBF(), RBF()))) == "sum"
    assert named_children([]) == []


def test_paths_of_a_nested_tree():
    assert list(nested().parameters()) == [
        "scale",
        "rbf_1__scale",
        "rbf_1__length_scale",
        "product__cauchy__length_scale",
        "product__cauchy__alpha",
        "product__arc_cosine__order",
        "rbf_2__length_scale",
    ]
    entry = nested().parameters()["product__cauchy__alpha"]
    assert isinstance(entry.owner, Cauchy)
    assert entry.declaration is Cauchy.alpha
    assert entry.stored == entry.value == 0.5
    assert entry.path == "product__cauchy__alpha"


def test_hidden_names_get_a_level():
    twice = PolynomialOf(PolynomialOf(PolynomialOf(RBF()), [2.0]), [3.0])
    assert list(twice.parameters()) == [
        "coefficients",
        "polynomial__coefficients",
        "polynomial__polynomial__coefficients",
        "polynomial__polynomial__length_scale",
    ]
    assert twice.replace(polynomial__coefficients=[7.0]).kernel.coefficients == [7.0]
    scaled = Scaled(On(Scaled(RBF(), 2.0)), 3.0)
    assert scaled.get_params() == {"scale": 3.0, "scaled__scale": 2.0, "scaled__length_scale": 1.0}
    assert scaled.replace(scaled__scale=5).kernel.kernel.scale == 5.0


def test_get_params():
    assert Scaled(RBF(Fixed(2)), 3).get_params(deep=False) == {"scale": 3.0}
    assert Scaled(RBF(Fixed(2)), 3).get_params() == {"scale": 3.0, "length_scale": Fixed(2.0)}


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_replacing_by_the_stored_values_changes_nothing(kernel):
    assert kernel.replace(**kernel.get_params()) == kernel


def test_replace_deep():
    old = nested()
    new = old.replace(
        rbf_1__length_scale=7, product__cauchy__alpha=8.0, product__arc_cosine__order=2
    )
    assert new.kernel.kernels[0].kernel.kernel.length_scale == 7.0
    assert new.kernel.kernels[0].kernel.columns == ("a", "b")
    assert new.kernel.kernels[1].kernels == (Cauchy(Fixed(3.0), 8.0), ArcCosine(2))
    assert new.kernel.kernels[2] is old.kernel.kernels[2]
    assert old == nested()


def test_replace_is_sticky():
    assert RBF(Fixed(1)).replace(length_scale=2).declared("length_scale") == Fixed(2.0)
    assert RBF(Fixed(1)).replace(length_scale="median") == RBF(Fixed("median"))
    assert RBF(Fixed("median")).replace(length_scale=[1, 2]) == RBF(Fixed([1, 2]))
    bounded = RBF(Bounded(1, 0.5, 4))
    assert bounded.replace(length_scale=2) == RBF(Bounded(2, 0.5, 4))
    assert bounded.replace(length_scale=Fixed(9)) == RBF(Fixed(9))
    assert RBF(Fixed(1)).replace(length_scale=Bounded(1, 0, 2)) == RBF(Bounded(1, 0, 2))
    assert RBF(1).replace(length_scale=Fixed(1)) == RBF(Fixed(1))
    with pytest.raises(
        ParameterError,
        match=r"RBF: length_scale = 5.0 does not satisfy .* 0.5 <= value <= 4.0; pass",
    ):
        bounded.replace(length_scale=5)


def test_replace_whole_children():
    new = nested().replace(rbf_2=Matern(), product__cauchy=RBF(9))
    assert new.kernel.kernels[2] == Matern()
    assert new.kernel.kernels[1].kernels == (RBF(9.0), ArcCosine(1))
    assert "matern__nu" in new.parameters()
    assert "product__rbf__length_scale" in new.parameters()
    assert new.kernel.kernels[0] is not None
    with pytest.raises(ParameterError, match="rbf_2 = 3 is not a kernel"):
        nested().replace(rbf_2=3)
    with pytest.raises(ParameterError, match="replaced as a whole"):
        nested().replace(rbf_2=RBF(), rbf_2__length_scale=3)


def test_replace_refuses_unknown_paths():
    with pytest.raises(ParameterError, match=r"did you mean rbf_1__length_scale\?.*rbf_1__scale"):
        nested().replace(rbf_1__lengthscale=1)
    with pytest.raises(ParameterError, match="kernel is not a parameter"):
        Scaled(RBF()).replace(kernel=RBF())
    with pytest.raises(ParameterError, match=r"RBF: length_scale = -1.0"):
        nested().replace(rbf_1__length_scale=-1)
    with pytest.raises(ParameterError, match="differ in length"):
        Mixture().replace(weights=[1.0, 1.0, 1.0])


# ----------------------------------------------------------------------------------- learning


def test_theta_of_a_nested_tree():
    kernel = nested()
    assert kernel.theta_names == [
        "rbf_1__scale",
        "rbf_1__length_scale[0]",
        "rbf_1__length_scale[1]",
        "product__cauchy__alpha",
        "rbf_2__length_scale",
    ]
    assert_allclose(kernel.theta, np.log([2.0, 1.0, 2.0, 0.5, 0.5]), rtol=1e-15)
    assert kernel.theta.dtype == np.float64
    assert not kernel.theta.flags.writeable
    bounds = np.full((5, 2), [-np.inf, np.inf])
    bounds[4] = np.log([0.1, 1.0])
    assert_allclose(kernel.theta_bounds, bounds)


def test_theta_skips_zeros_and_follows_rows():
    kernel = Mixture([0.0, 2.0], [[1.0, 2.0], [3.0, 4.0]])
    names = ["weights[1]", "means[0, 0]", "means[0, 1]", "means[1, 0]", "means[1, 1]"]
    assert kernel.theta_names == names
    assert_allclose(kernel.theta, [np.log(2.0), 1, 2, 3, 4])
    moved = kernel.with_theta([0.0, 5, 6, 7, 8])
    assert moved == Mixture([0.0, 1.0], [[5, 6], [7, 8]])


def test_nothing_free():
    kernel = Scaled(RBF(Fixed(1)), 0.0)
    assert kernel.theta.shape == (0,)
    assert kernel.theta_bounds.shape == (0, 2)
    assert kernel.theta_names == []
    assert kernel.with_theta([]) is kernel
    assert kernel.chain({"scale": 1.0, "length_scale": 2.0}).shape == (0,)


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_with_theta_round_trip_is_exact(kernel):
    if kernel.unresolved():
        pytest.skip("holds a heuristic")
    assert kernel.with_theta(kernel.theta) == kernel
    moved = kernel.with_theta(kernel.theta - 0.25)
    assert_allclose(moved.theta, kernel.theta - 0.25, rtol=1e-14, atol=1e-14)
    assert moved.theta_names == kernel.theta_names


def test_with_theta_keeps_what_is_held():
    moved = nested().with_theta(np.log([9.0, 8.0, 7.0, 6.0, 0.2]))
    stored = moved.get_params()
    assert stored["scale"] == Fixed(4.0)
    assert stored["product__cauchy__length_scale"] == Fixed(3.0)
    assert stored["rbf_2__length_scale"].low == 0.1
    assert_allclose(stored["rbf_1__length_scale"], [8.0, 7.0], rtol=1e-14)
    assert type(moved.parameters()["rbf_1__scale"].value) is float


@pytest.mark.parametrize("low", [0.1, 0.3, 1e-7, 3.7])
@pytest.mark.parametrize("high", [7.3, 1e9, 123.456])
def test_with_theta_at_the_bounds(low, high):
    kernel = RBF(Bounded([5.0, 5.0], low, high))
    moved = kernel.with_theta(kernel.theta_bounds[0])
    assert_allclose(moved.length_scale, [low, high], rtol=1e-14)
    outside = kernel.theta_bounds[0] + np.array([-1e-13, 1e-13])
    for theta in (kernel.theta_bounds[0], outside):
        first, second = kernel.with_theta(theta).length_scale
        assert low <= first <= second <= high
    with pytest.raises(ParameterError, match="out of its bounds"):
        kernel.with_theta(kernel.theta_bounds[0] + [0, 1e-6])


def test_a_bound_at_zero_is_minus_infinity():
    kernel = RBF(Bounded(1, 0, 4))
    assert_allclose(kernel.theta_bounds, [[-np.inf, np.log(4)]])
    assert_allclose(kernel.with_theta([-5.0]).length_scale, np.exp(-5))


def test_bounds_for_each_entry():
    kernel = Mixture(means=Bounded([[0.0], [1.0]], [[-1.0], [0.0]], 3.0))
    assert_allclose(kernel.theta_bounds[2:], [[-1.0, 3.0], [0.0, 3.0]])


@pytest.mark.parametrize("bad", [[], [1.0, 2.0], 1.0, [[1.0]]])
def test_with_theta_refuses_shapes(bad):
    with pytest.raises(ParameterError, match=r"theta has shape .* not \(1,\).*length_scale"):
        RBF().with_theta(bad)


@pytest.mark.parametrize("bad", [1e4, -1e4, np.inf])
def test_with_theta_refuses_what_float64_cannot_hold(bad):
    for kernel in (RBF(), Scaled(RBF(Fixed(1)))):
        with pytest.raises(ParameterError, match="out of the range of float64"):
            kernel.with_theta([bad])


def test_unresolved():
    kernel = Sum(RBF("median"), Cauchy(Fixed("scale")), RBF(Bounded("median", 0.1, 1)))
    paths = ["rbf_1__length_scale", "cauchy__length_scale", "rbf_2__length_scale"]
    assert kernel.unresolved() == paths
    for read in ("theta", "theta_bounds", "theta_names"):
        with pytest.raises(UnresolvedParameterError, match=r"Sum: rbf_1__length_scale = 'median'"):
            getattr(kernel, read)
    with pytest.raises(UnresolvedParameterError):
        kernel.parameter_values()
    resolved = kernel.replace(**dict.fromkeys(paths, 0.5))
    assert resolved == Sum(RBF(0.5), Cauchy(Fixed(0.5)), RBF(Bounded(0.5, 0.1, 1)))
    assert resolved.unresolved() == []


def test_parameter_values_are_plain_and_continuous():
    values = nested().parameter_values()
    assert "product__arc_cosine__order" not in values
    assert values["scale"] == 4.0
    assert values["product__cauchy__length_scale"] == 3.0
    assert_array_equal(values["rbf_1__length_scale"], [1.0, 2.0])


def test_chain_agrees_with_central_differences():
    kernel = Sum(nested(), Mixture([0.0, 2.0], [[1.0, 2.0], [3.0, 4.0]]))
    rng = np.random.default_rng(0)
    weights = {path: rng.normal(size=np.shape(v)) for path, v in kernel.parameter_values().items()}

    def f(k):
        return sum(np.sum(weights[path] * np.sin(v)) for path, v in k.parameter_values().items())

    gradients = {path: weights[path] * np.cos(v) for path, v in kernel.parameter_values().items()}
    step = 1e-6
    numerical = [
        (f(kernel.with_theta(kernel.theta + e)) - f(kernel.with_theta(kernel.theta - e))) / 2 / step
        for e in step * np.eye(len(kernel.theta))
    ]
    assert len(numerical) == 10
    assert_allclose(kernel.chain(gradients), numerical, rtol=1e-7, atol=1e-8)


def test_chain_refuses():
    with pytest.raises(ParameterError, match="gradient in alpha is missing"):
        Cauchy().chain({"length_scale": 1.0})
    with pytest.raises(ParameterError, match=r"shape \(\) and the value has shape \(2,\)"):
        RBF([1, 2]).chain({"length_scale": 1.0})
    with pytest.raises(ParameterError, match="beta is not a parameter"):
        RBF().chain({"length_scale": 1.0, "beta": 1.0})
