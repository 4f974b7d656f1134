"""Support vector machines against scikit-learn's, whose arguments and attributes they share."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import config_context, svm
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    make_moons,
)
from sklearn.metrics.pairwise import (
    chi2_kernel,
    euclidean_distances,
    rbf_kernel,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from irises import LINEAR, NAMES, NUMBERS, SPECIES, TOL, TWO, WEIGHTS, X, Z, nearness
from mercer import memory
from mercer.exceptions import (
    DataError,
    DataWarning,
    MemoryForecastError,
    ParameterError,
    ValidityError,
)
from mercer.models.svm import base as svm_base
from references import matrix, rbf

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)


def exceptions_of_principle(estimator: Any) -> dict[str, str]:
    """Checks that contradict what the arguments mean."""
    found = {}
    if isinstance(estimator, mc.NuSVC):
        unequal = "no function has a nu of 0.5 if one class has nearly all of the weight"
        found["check_class_weight_classifiers"] = unequal
    reason = why_weights_are_not_copies(estimator)
    if reason is not None:
        kinds = ("dense", "sparse")
        found |= {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}
    return found


def why_weights_are_not_copies(estimator: Any) -> str | None:
    """Why rows of weight two are not rows that are there twice."""
    machine = estimator.estimator if isinstance(estimator, mc.SVCSearch) else estimator
    if isinstance(machine, mc.NuSVC):
        return "no function has a nu of 0.5 if one class has nearly all of the weight"
    if isinstance(getattr(machine, "solver", None), mc.solvers.NystromSolver):
        return "a row repeated has other chances to be a landmark than a row of weight two"
    if machine is None or machine.kernel == "rbf":
        return "gamma of a kernel that is named counts every row once, as scikit-learn's does"
    if getattr(machine, "probability", False):
        return "copies of a row may be in different parts of the rows, of which probabilities learn"
    return None


@parametrize_with_checks(
    [
        mc.SVC(),
        mc.SVC(mc.RBF(length_scale="scale"), tol=TOL),
        mc.SVC(mc.RBF(length_scale="scale"), probability=True, random_state=0),
        mc.SVC(mc.Linear(), solver=mc.solvers.NystromSolver(8, random_state=0)),
        mc.NuSVC(),
        mc.SVR(mc.Linear(), tol=TOL),
        mc.NuSVR(),
        mc.OneClassSVM(),
        mc.SVDD(),
        mc.SVCSearch(Cs=[1.0], length_scales=None, cv=2),
    ],
    expected_failed_checks=exceptions_of_principle,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def expanded(model: Any) -> Array:
    """The coefficients of all rows, one column for each row of ``dual_coef_``."""
    coefficients = np.zeros((len(X), len(model.dual_coef_)))
    coefficients[model.support_] = model.dual_coef_.T
    return coefficients


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("labels", [TWO, (SPECIES == 1).astype(int), SPECIES == 1])
def test_two_classes(labels: Any, weights: Any) -> None:
    ours = mc.SVC(C=3.0, tol=TOL).fit(X, labels, weights)
    theirs = svm.SVC(C=3.0, tol=TOL).fit(X, labels, weights)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)
    K = matrix(rbf, X, length_scale=np.sqrt(X.shape[1] * X.var() / 2))
    a, b = (expanded(model)[:, 0] for model in (ours, theirs))
    peer = b @ K @ b / 2 - np.abs(b).sum()
    assert abs(a @ K @ a / 2 - np.abs(a).sum() - peer) < 1e-7 * abs(peer)
    assert abs(float(ours.objective_[0]) - peer) < 1e-7 * abs(peer)
    assert ours.intercept_.shape == theirs.intercept_.shape
    np.testing.assert_allclose(
        ours.decision_function(Z), theirs.decision_function(Z), atol=nearness(ours)
    )
    np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))


PEERS = [
    (mc.NuSVC(nu=0.3, tol=TOL), svm.NuSVC(nu=0.3, tol=TOL), NAMES),
    (mc.NuSVC(nu=0.1, tol=TOL, kernel="poly"), svm.NuSVC(nu=0.1, tol=TOL, kernel="poly"), TWO),
    (mc.SVR(tol=TOL), svm.SVR(tol=TOL), NUMBERS),
    (mc.SVR(C=50, epsilon=0.0, tol=TOL), svm.SVR(C=50, epsilon=0.0, tol=TOL), NUMBERS),
    (mc.SVR(kernel="linear", tol=TOL), svm.SVR(kernel="linear", tol=TOL), NUMBERS),
    (mc.NuSVR(tol=TOL), svm.NuSVR(tol=TOL), NUMBERS),
    (mc.NuSVR(nu=0.2, C=10, tol=TOL), svm.NuSVR(nu=0.2, C=10, tol=TOL), NUMBERS),
    (mc.OneClassSVM(nu=0.2, tol=TOL), svm.OneClassSVM(nu=0.2, tol=TOL), None),
]


@pytest.mark.parametrize(("ours", "theirs", "y"), PEERS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_other_machines(ours: Any, theirs: Any, y: Any, weights: Any) -> None:
    ours = clone(ours).fit(X, y, sample_weight=weights)
    theirs = clone(theirs).fit(X, y, sample_weight=weights)
    values = "predict" if isinstance(ours, mc.SVR | mc.NuSVR) else "decision_function"
    np.testing.assert_allclose(
        getattr(ours, values)(Z), getattr(theirs, values)(Z), atol=nearness(ours)
    )
    np.testing.assert_array_equal(np.sign(ours.intercept_), np.sign(theirs.intercept_))
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.dual_coef_.shape[0] == theirs.dual_coef_.shape[0]
    if y is None:
        np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))
        np.testing.assert_allclose(
            ours.score_samples(Z), theirs.score_samples(Z), atol=nearness(ours)
        )
        assert ours.offset_.shape == theirs.offset_.shape


def test_a_given_matrix() -> None:
    train, test = mc.RBF(length_scale=1.0)(X), mc.RBF(length_scale=1.0)(Z, X)
    ours = mc.SVC(kernel="precomputed", tol=TOL).fit(train, NAMES)
    theirs = svm.SVC(kernel="precomputed", tol=TOL).fit(train, NAMES)
    np.testing.assert_allclose(
        ours.decision_function(test), theirs.decision_function(test), atol=1e-3
    )
    assert ours.support_vectors_.shape == theirs.support_vectors_.shape == (0, 0)
    direct = mc.SVC(mc.RBF(length_scale=1.0), tol=TOL).fit(X, NAMES)
    np.testing.assert_allclose(
        ours.decision_function(test), direct.decision_function(Z), atol=nearness(direct)
    )


def test_a_function_of_matrices() -> None:
    def kernel(A: Array, B: Array) -> Array:
        return (1 + A @ B.T) ** 2

    ours = mc.SVC(kernel=kernel, tol=TOL).fit(X, TWO)
    theirs = svm.SVC(kernel=kernel, tol=TOL).fit(X, TWO)
    np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))


def test_a_function_of_compiled_code() -> None:
    shares = np.abs(X) / np.abs(X).sum(axis=1, keepdims=True)
    given = shares.copy()
    ours = mc.SVC(kernel=chi2_kernel, tol=TOL).fit(given, TWO)
    theirs = svm.SVC(kernel=chi2_kernel, tol=TOL).fit(shares, TWO)
    np.testing.assert_allclose(
        ours.decision_function(shares), theirs.decision_function(shares), atol=nearness(ours)
    )


@pytest.mark.parametrize("pairwise", [False, True])
def test_what_a_function_writes_stays_its_own(pairwise: bool) -> None:
    def scribble(a: Array, b: Array) -> Any:
        value = a @ b.T
        a[...] = np.nan
        return value

    given = X.copy()
    kernel = mc.FunctionKernel(scribble, pairwise=pairwise)
    assert kernel(given[:1], given[1:2]) == pytest.approx(X[0] @ X[1])
    np.testing.assert_array_equal(given, X)


def test_a_function_of_sparse_matrices() -> None:
    rows, labels = sp.csr_matrix(np.where(X > 2, X, 0.0)), TWO

    def dot(A: Any, B: Any) -> Any:
        return A @ B.T

    ours = mc.SVC(kernel=dot, tol=TOL).fit(rows, labels)
    theirs = svm.SVC(kernel=dot, tol=TOL).fit(rows, labels)
    np.testing.assert_allclose(
        ours.decision_function(rows), theirs.decision_function(rows), atol=1e-3
    )
    dense = rows.toarray()
    ball, plain = mc.SVDD(kernel=dot).fit(rows), mc.SVDD("linear").fit(dense)
    np.testing.assert_allclose(
        ball.decision_function(rows), plain.decision_function(dense), atol=1e-12
    )


TABLES = [
    (10 * X).astype(int),
    X > 3,
    X.astype(np.float32),
    X.astype(np.float16),
    X.tolist(),
    sp.csr_array(X),
    sp.csc_matrix(X),
    sp.csr_matrix((10 * X).astype(int)),
    X.astype(object),
    pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"]),
    pd.DataFrame(X.astype(np.float32)),
]


@pytest.mark.parametrize("interface", ["spmatrix", "sparray"])
@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{type(t).__name__}")
def test_the_type_of_support_vectors(table: Any, interface: str) -> None:
    with config_context(sparse_interface=interface):
        ours, theirs = (
            machine(kernel="linear", C=0.1, tol=TOL).fit(table, TWO)
            for machine in (mc.SVC, svm.SVC)
        )
        for name in ("support_vectors_", "dual_coef_", "coef_"):
            found, want = getattr(ours, name), getattr(theirs, name)
            assert type(found) is type(want)
            assert found.dtype == want.dtype
    dense = table.toarray() if sp.issparse(table) else np.asarray(table)
    rows = ours.support_vectors_.toarray() if sp.issparse(table) else ours.support_vectors_
    np.testing.assert_array_equal(rows, dense[ours.support_])


@pytest.mark.parametrize("labels", [NAMES, TWO])
def test_planes_have_normals(labels: Any) -> None:
    ours = mc.SVC(kernel="linear", tol=TOL).fit(X, labels)
    theirs = svm.SVC(kernel="linear", tol=TOL).fit(X, labels)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=nearness(ours))
    assert not hasattr(mc.SVC().fit(X, labels), "coef_")


def test_sparse_rows() -> None:
    dense = np.where(RNG.uniform(size=(80, 30)) < 0.2, RNG.normal(size=(80, 30)), 0.0)
    y = dense[:, :5].sum(axis=1) > 0
    ours = mc.SVC(tol=TOL).fit(sp.csr_array(dense), y)
    theirs = svm.SVC(tol=TOL).fit(sp.csr_matrix(dense), y)
    np.testing.assert_allclose(
        ours.decision_function(sp.csr_array(dense)), theirs.decision_function(dense), atol=1e-3
    )
    assert sp.issparse(ours.support_vectors_)
    assert type(ours.dual_coef_) is type(theirs.dual_coef_)
    np.testing.assert_allclose(ours.dual_coef_.toarray(), theirs.dual_coef_.toarray(), atol=1e-3)
    planes = [model.fit(sp.csr_array(dense), y) for model in LINEAR]
    assert type(planes[0].coef_) is type(planes[1].coef_)
    np.testing.assert_allclose(planes[0].coef_.toarray(), planes[1].coef_.toarray(), atol=1e-3)


def test_an_infinite_cost_separates_without_errors() -> None:
    """The margin of two points at a distance of 2 is 1, whatever is behind them."""
    apart = np.array([[0.0, 1.0], [0.0, -1.0], [3.0, 4.0], [-3.0, -4.0], [1.0, 5.0]])
    sides = np.array([1, 0, 1, 0, 1])
    for machine in (mc.SVC, svm.SVC):
        model = machine(kernel="linear", C=np.inf, tol=1e-8).fit(apart, sides)
        np.testing.assert_allclose(model.coef_, [[0.0, 1.0]], atol=1e-7)
        np.testing.assert_allclose(model.intercept_, [0.0], atol=1e-7)
    ours = mc.SVC(C=np.inf, tol=TOL).fit(X[:100], NAMES[:100])
    theirs = svm.SVC(C=np.inf, tol=TOL).fit(X[:100], NAMES[:100])
    assert ours.converged_
    assert ours.dual_gap_ < 1e-6 * abs(ours.objective_)
    near = 2 * np.sqrt(2 * ours.dual_gap_[0])
    np.testing.assert_allclose(ours.decision_function(Z), theirs.decision_function(Z), atol=near)
    tube = mc.SVR(C=np.inf, epsilon=0.5, tol=1e-6).fit(X, NUMBERS)
    assert np.abs(tube.predict(X) - NUMBERS).max() < 0.5 + 2e-6
    peer = svm.SVR(C=np.inf, epsilon=0.5, tol=1e-6).fit(X, NUMBERS)
    near = 2 * np.sqrt(2 * tube.dual_gap_)
    np.testing.assert_allclose(tube.predict(Z), peer.predict(Z), atol=near)


def test_rows_of_negative_weight_are_left_out() -> None:
    weights = WEIGHTS.copy()
    weights[::7] = -1.0
    with pytest.warns(DataWarning, match="22 rows have a negative weight and are left out"):
        ours = mc.SVC(gamma=0.5, tol=TOL).fit(X, TWO, weights)
    theirs = svm.SVC(gamma=0.5, tol=TOL).fit(X, TWO, weights)
    np.testing.assert_allclose(
        ours.decision_function(Z), theirs.decision_function(Z), atol=nearness(ours)
    )
    with pytest.raises(DataError), pytest.warns(DataWarning, match="left out"):
        mc.SVC().fit(X, TWO, -WEIGHTS)


@pytest.mark.parametrize(
    "kind", [list, tuple, pd.Series, partial(pd.Series, dtype="Float64"), pd.Index, pl.Series]
)
def test_weights_of_any_kind(kind: Any) -> None:
    weights = np.where(np.arange(len(X)) % 7 > 0, WEIGHTS, -1.0)
    kept = weights > 0
    with pytest.warns(DataWarning, match="22 rows have a negative weight"):
        ours = mc.SVC(gamma=0.5, tol=TOL).fit(X, TWO, kind(weights))
    theirs = svm.SVC(gamma=0.5, tol=TOL).fit(X[kept], TWO[kept], weights[kept])
    np.testing.assert_allclose(
        ours.decision_function(Z), theirs.decision_function(Z), atol=nearness(ours)
    )


@pytest.mark.parametrize("bad", [["a"] * 150, [[1.0], [1.0, 2.0]], -1.0, [None] * 150])
def test_weights_that_are_none(bad: Any) -> None:
    with pytest.raises(DataError, match="SVC: "):
        mc.SVC().fit(X, TWO, bad)


def test_probabilities_beside_a_class_of_one_row() -> None:
    labels = NAMES.astype("<U12")
    labels[7] = "alone"
    model = mc.SVC(probability=True, random_state=0).fit(X, labels)
    found = model.predict_proba(Z)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(Z))
    with pytest.raises(DataError, match="every class has a single row"):
        mc.SVC(probability=True).fit(X[:2], ["a", "b"])


def test_data_frames_keep_their_names() -> None:
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    model = mc.SVC(mc.RBF(2.0)).fit(frame, NAMES)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    pd.testing.assert_frame_equal(
        model.support_vectors_.reset_index(drop=True),
        frame.iloc[model.support_].reset_index(drop=True),
    )


def test_float32_data_give_the_same_classes() -> None:
    cancer, y = load_breast_cancer(return_X_y=True)
    cancer = (cancer - cancer.mean(axis=0)) / cancer.std(axis=0)
    wide, narrow = mc.SVC().fit(cancer, y), mc.SVC().fit(cancer.astype(np.float32), y)
    assert (wide.predict(cancer) != narrow.predict(cancer.astype(np.float32))).mean() < 0.005


# Arguments that are refused -----------------------------------------------------------------------


@pytest.mark.parametrize("megabytes", [1e-6, 0.1, 200.0])
def test_values_out_of_range_are_refused_whatever_is_kept(megabytes: float) -> None:
    large = mc.FunctionKernel(lambda A, B: 1e200 * rbf_kernel(A, B))
    with pytest.raises(DataError, match="infinite or not numbers"):
        mc.SVC(large * large, psd="ignore", cache_size=megabytes).fit(X, TWO)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C": 0.0}, r"C = 0\.0 is not a number > 0"),
        ({"C": np.nan}, "C = nan is not a number > 0"),
        ({"C": "1"}, "C = '1' is not a number"),
        ({"C": np.inf, "solver": mc.solvers.NystromSolver(20)}, "C = inf allows no errors"),
        ({"C": {"yes": 1.0}}, "nothing for the class 'no'"),
        (
            {"C": {"yes": -1.0, "no": 1.0}},
            r"C\['yes'\] = -1\.0 is not a number > 0",
        ),
        ({"tol": -1.0}, r"tol = -1\.0"),
        ({"kernel": "gauss"}, "is not the name of a kernel"),
        ({"kernel": 3}, "is not a kernel"),
        ({"kernel": mc.RBF}, "RBF is a class of kernels and not a kernel"),
        ({"gamma": -1.0}, r"gamma = -1\.0 is neither"),
        ({"gamma": "much"}, "gamma = 'much' is neither"),
        ({"kernel": "poly", "coef0": np.nan}, "coef0 = nan is not a finite number"),
        ({"kernel": "poly", "degree": -1}, "degree = -1 is not a whole number >= 0"),
        ({"kernel": "poly", "degree": 1.5}, r"degree = 1\.5 is not a whole number"),
        ({"max_iter": -2}, "max_iter = -2 is neither -1"),
        ({"class_weight": [1.0, 2.0]}, 'neither "balanced" nor a dict'),
        ({"psd": "mend"}, "psd = 'mend' is unknown"),
        ({"multi_class": "all"}, "multi_class = 'all' is unknown"),
        ({"decision_function_shape": None}, "decision_function_shape = None is unknown"),
        ({"multi_class": "ovr", "decision_function_shape": "ovo"}, "one function for each class"),
        ({"class_weight": {"yes": 0.0}}, "not all finite and > 0"),
        ({"probability": "yes"}, "probability = 'yes' is neither True nor False"),
        ({"solver": mc.solvers.Cholesky()}, "is unknown here"),
        ({"solver": mc.solvers.NystromSolver(20), "probability": True}, "needs the dual problem"),
        (
            {"solver": mc.solvers.NystromSolver(20), "max_iter": 0},
            "max_iter = 0 leaves nothing learned",
        ),
        ({"verbose": "a"}, "verbose = 'a' is neither True nor False"),
        ({"random_state": "a"}, "random_state = 'a' gives no random numbers"),
        ({"kernel": "poly", "gamma": 0.0, "coef0": 1e200}, "exceeds the range of numbers"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mc.SVC(**arguments).fit(X, TWO)


@pytest.mark.parametrize("nu", [0.0, 1.5, -0.1, "half"])
@pytest.mark.parametrize("machine", [mc.NuSVC, mc.NuSVR, mc.OneClassSVM, mc.SVDD])
def test_bad_shares(machine: Any, nu: Any) -> None:
    with pytest.raises(ParameterError, match="nu = "):
        machine(nu=nu).fit(X, SPECIES)


def test_a_share_that_no_function_has() -> None:
    with pytest.raises(ParameterError, match="infeasible"):
        mc.NuSVC(nu=0.9).fit(X[:60], SPECIES[:60])


def test_several_targets_are_refused() -> None:
    with pytest.raises(DataError, match="one number"):
        mc.SVR().fit(X, np.column_stack([NUMBERS, NUMBERS]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(bad: float) -> None:
    broken = X.copy()
    broken[3, 1] = bad
    for machine in (mc.SVC, mc.SVR, mc.OneClassSVM):
        with pytest.raises(DataError):
            machine().fit(broken, SPECIES)


@pytest.mark.parametrize("machine", [mc.SVC(), mc.SVC(multi_class="ovr"), mc.NuSVC(nu=0.8)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_shape_of_the_data_counts_rows_without_weight(machine: Any, n_classes: int) -> None:
    data = RNG.normal(size=(200, 2))
    weights = np.repeat([0.0, 1.0], [50, 150])
    model = clone(machine).fit(data, np.arange(200) % n_classes, weights)
    assert model.shape_fit_ == (200, 2)
    assert model.support_.min() >= 50


LARGE = [
    (mc.SVC(C=1e100), {}, "C times the weight of a row"),
    (mc.SVR(C=1e-100), {}, "C times the weight of a row"),
    (mc.OneClassSVM(), {"sample_weight": np.full(len(X), 1e100)}, "sample_weight"),
]


@pytest.mark.parametrize(("model", "arguments", "what"), LARGE)
def test_numbers_whose_squares_leave_the_range_are_refused(
    model: Any, arguments: dict[str, Any], what: str
) -> None:
    with pytest.raises(DataError, match=f"{what} has values .* leave the range"):
        model.fit(X, **({"y": SPECIES == 1} | arguments))


@pytest.mark.parametrize("model", [mc.SVR(), mc.NuSVR()])
def test_targets_whose_squares_leave_the_range_are_refused(model: Any) -> None:
    with pytest.raises(DataError, match=r"SVR: the largest target is .*; divide y by a constant"):
        model.fit(X, 1e150 * NUMBERS)


# Similarities that are no kernels -----------------------------------------------------------------

INDEFINITE = mc.RBF(length_scale=1.0)(X) - 0.4 * np.eye(len(X))[::-1] - 0.4 * np.eye(len(X))
MOONS, SIDES = make_moons(160, noise=0.25, random_state=0)


def test_an_indefinite_matrix_is_refused_or_mended() -> None:
    similarity = (INDEFINITE + INDEFINITE.T) / 2
    with pytest.raises(ValidityError, match="psd"):
        mc.SVC(mc.Precomputed()).fit(similarity, TWO)
    for method in ("clip", "flip", "shift"):
        mended = mc.validity.repair(similarity, method)
        model = mc.SVC(mc.Precomputed(), psd=method, tol=TOL).fit(similarity, TWO)
        peer = svm.SVC(kernel="precomputed", tol=TOL).fit(mended.matrix, TWO)
        np.testing.assert_allclose(
            model.decision_function(similarity[:20]),
            peer.decision_function(mended.transform(similarity[:20])),
            atol=1e-3,
        )


def indefinite(n: int) -> Any:
    values = np.random.default_rng(0).normal(size=(n, n))
    return values + values.T


@pytest.mark.parametrize(
    ("kernel", "data"),
    [
        ("precomputed", indefinite(60)),
        ("precomputed", indefinite(1000)),
        ("precomputed", -rbf_kernel(np.arange(60.0)[:, None], gamma=0.1)),
        (lambda a, b: -a @ b.T, np.arange(120.0).reshape(60, 2)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*may have several solutions")
def test_no_gap_is_claimed_of_a_matrix_that_is_seen_to_be_invalid(kernel: Any, data: Any) -> None:
    labels = np.arange(len(data)) % 2
    assert np.isnan(mc.SVC(kernel, max_iter=2000).fit(data, labels).dual_gap_).all()
    targets = labels + 0.5
    assert np.isnan(mc.SVR(kernel, C=10.0, max_iter=2000).fit(data, targets).dual_gap_)


@pytest.mark.parametrize("shift", [0.0, -1.0, 1e4])
def test_the_gap_of_a_matrix_that_is_valid_where_sums_are_kept(shift: float) -> None:
    """A constant does not change the problem; the gap is primal minus dual, by NumPy."""
    data, dtype = MOONS[:150], np.float64 if shift else np.float32
    gram = rbf_kernel(data, gamma=0.5)
    model = mc.SVC("precomputed", C=10.0).fit((gram + shift).astype(dtype), SIDES[:150])
    b, signs = np.zeros(len(data)), np.where(SIDES[:150] == model.classes_[1], 1.0, -1.0)
    b[model.support_] = model.dual_coef_[0]
    square = b @ gram @ b
    losses = np.maximum(0, 1 - signs * (gram @ b + model.intercept_[0]))
    gap = square / 2 + 10 * losses.sum() + square / 2 - np.abs(b).sum()
    assert model.dual_gap_[0] == pytest.approx(gap, rel=1e-3, abs=1e-5 * np.abs(b).sum())


def test_a_matrix_that_is_not_symmetric_is_refused_by_name_too() -> None:
    skew = np.random.default_rng(0).normal(size=(60, 60))
    with pytest.raises(ValidityError, match=r"Precomputed\(\) is not symmetric.*pass \(K \+ K.T\)"):
        mc.SVC("precomputed").fit(skew, np.arange(60) % 2)
    gram = rbf_kernel(MOONS, gamma=0.5)
    rounded = gram + 1e-7 * np.triu(np.ones_like(gram), 1)
    np.testing.assert_allclose(
        mc.SVC("precomputed", tol=1e-8).fit(rounded, SIDES).intercept_,
        mc.SVC("precomputed", tol=1e-8).fit(gram, SIDES).intercept_,
        atol=1e-4,
    )


class Cauchy(mc.Stationary):
    """A kernel of which mercer knows nothing."""

    def profile(self, r2: Any) -> Any:
        return 1 / (1 + r2)


class Parabola(mc.Stationary):
    """No kernel."""

    def profile(self, r2: Any) -> Any:
        return 1 - r2 * r2


def test_of_many_rows_some_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svm_base, "_CHECKED", 50)
    monkeypatch.setattr(memory, "available", lambda: 10_000.0 * 50)
    peer = svm.SVC(kernel=lambda a, b: 1 / (1 + euclidean_distances(a, b, squared=True)), tol=1e-6)
    model = mc.SVC(Cauchy(length_scale=1.0), tol=1e-6).fit(MOONS, SIDES)
    np.testing.assert_allclose(
        model.decision_function(MOONS), peer.fit(MOONS, SIDES).decision_function(MOONS), atol=1e-4
    )
    with pytest.raises(ValidityError, match="n = 50"):
        mc.SVC(Parabola(length_scale=1.0)).fit(MOONS, SIDES)


def test_a_matrix_without_room_can_be_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 8.0 * len(MOONS) ** 2)
    kernel = Cauchy(length_scale=1.0)
    for psd in (None, "clip"):
        with pytest.raises(MemoryForecastError, match=r'with psd="ignore"\.') as caught:
            mc.SVC(kernel, psd=psd).fit(MOONS, SIDES)
        assert "float32" not in str(caught.value)
    assert mc.SVC(kernel, psd="ignore").fit(MOONS, SIDES).converged_


@pytest.mark.filterwarnings("ignore:.*may have several solutions")
def test_no_gap_is_claimed_without_a_valid_kernel() -> None:
    assert np.isnan(
        mc.SVC(kernel="sigmoid", gamma=3.0, coef0=0.5).fit(MOONS, SIDES).dual_gap_
    ).all()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_the_normal_of_a_plane_cannot_be_written_to(container: Any) -> None:
    model = mc.SVC("linear").fit(container(MOONS), SIDES)
    values = model.coef_ if isinstance(model.coef_, np.ndarray) else model.coef_.data
    with pytest.raises(ValueError, match="read-only"):
        values[:] = 0.0


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[0.0, 1.0], [1.0, 0.0]], columns=["a", "a"])
    with pytest.raises(DataError, match="with a name of its own for each column"):
        mc.SVC().fit(frame, [0, 1])
