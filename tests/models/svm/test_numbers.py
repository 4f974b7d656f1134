"""Support vector machines where numbers are far from ordinary, and where rows are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import laplacian_kernel

import mercer as mc
from mercer.exceptions import DataError

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
T = X[:, 0] + 0.3 * RNG.normal(size=200)
Y = (T > 0).astype(int)


# Far from zero, huge and tiny -------------------------------------------------------------------


@pytest.mark.parametrize("place", [0.0, 1e3, 1e5])
def test_planes_of_data_far_from_zero(place: float) -> None:
    """The intercept takes up what is added to all rows: the problem is that of centred rows."""
    for ours, theirs, y in (
        (mc.SVR("linear", tol=1e-6), svm.SVR(kernel="linear", tol=1e-6), T),
        (mc.SVC("linear", tol=1e-6), svm.SVC(kernel="linear", tol=1e-6), Y),
    ):
        ours.fit(place + X, y)
        theirs.fit(X, y)
        assert ours.converged_
        # Data far from zero lose digits: a plane's values follow to those of the data.
        error = 1e-4 + 1e-9 * place
        np.testing.assert_allclose(ours.predict(place + X), theirs.predict(X), atol=error)


def test_planes_of_columns_of_all_sizes() -> None:
    data, labels = load_breast_cancer(return_X_y=True)
    model = mc.SVC("linear").fit(data, labels)
    assert model.converged_
    b = np.zeros(len(data))
    b[model.support_] = model.dual_coef_[0]
    objective = b @ (data @ (data.T @ b)) / 2 - np.abs(b).sum()
    assert abs(objective - model.objective_[0]) < 1e-6 * abs(objective)
    peer = svm.SVC(kernel="linear").fit(data, labels)
    c = np.zeros(len(data))
    c[peer.support_] = peer.dual_coef_[0]
    assert objective < c @ (data @ (data.T @ c)) / 2 - np.abs(c).sum() + 1e-3


@pytest.mark.parametrize("size", [1e-100, 1e-24, 1e24, 1e100])
@pytest.mark.parametrize("machine", [mc.SVR, mc.NuSVR])
def test_targets_of_any_size(machine: Any, size: float) -> None:
    """Targets and C times a number: the function times this number."""
    extra = {"epsilon": 0.01} if machine is mc.SVR else {}
    one = machine(tol=1e-6, **extra).fit(X, T)
    scaled = {name: size * value for name, value in extra.items()}
    many = machine(C=size, tol=1e-6 * size, **scaled).fit(X, size * T)
    assert many.converged_
    np.testing.assert_allclose(many.predict(X) / size, one.predict(X), atol=1e-4)


def test_a_row_that_float32_cannot_hold() -> None:
    data = RNG.normal(size=(2500, 2))
    labels = (data[:, 0] > 0).astype(int)
    data[0] = 1e45
    model = mc.SVC(gamma=0.5).fit(data, labels)
    assert model.converged_
    assert model.score(data, labels) > 0.95


@pytest.mark.parametrize("rows", [100, 2500])
@pytest.mark.parametrize(
    "machine",
    [mc.SVC, mc.NuSVC, mc.SVR, mc.NuSVR, mc.OneClassSVM, mc.SVDD],
)
def test_values_that_are_no_numbers_are_refused(machine: Any, rows: int) -> None:
    data = RNG.normal(size=(rows, 2)) * 1e160
    with pytest.raises(DataError, match=r"Linear\(\): some values of the kernel are infinite"):
        machine("linear").fit(data, data[:, 0] > 0)


# Margins and distances that are hardly there ----------------------------------------------------


def test_a_plane_through_the_origin() -> None:
    """Rows on all sides of the origin: no plane parts them from it, and its distance is zero."""
    data, _ = make_classification(500, random_state=42)
    with pytest.warns(ConvergenceWarning, match="more than the objective itself"):
        model = mc.OneClassSVM("linear").fit(data)
    assert model.converged_
    assert abs(model.offset_[0]) < 1e-3
    assert model.objective_ < 1e-3


@pytest.mark.parametrize("seed", range(8))
def test_classes_that_have_no_margin(seed: int) -> None:
    """Labels by chance in the plane: parts of a half of each class meet, and f is zero."""
    rng = np.random.default_rng(seed)
    data, labels = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    model = mc.NuSVC("linear", nu=0.5)
    with pytest.warns(ConvergenceWarning, match=r"no margin between the classes at nu = 0\.5"):
        model.fit(data, labels)
    assert not model.converged_
    # The nearest points of the two reduced hulls are one.
    b = np.zeros(len(data))
    b[model.support_] = model.dual_coef_[0]
    above = np.where(labels == 1, b, 0.0)
    assert above.sum() == pytest.approx(0.25 * len(data))
    assert b.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.abs(b).max() <= 1.0
    assert np.linalg.norm(data.T @ b) < 1e-5 * np.abs(b).sum()
    assert model.objective_[0] == pytest.approx(0.0, abs=1e-6)
    assert 0 <= model.dual_gap_[0] < 1e-3
    assert np.abs(model.decision_function(data)).max() < 1e-4


NO_MARGIN = {
    "a row far away": (np.vstack([X[:-1], np.full((1, 3), 1e8)]), Y),
    "contradictions": (np.repeat(X[:20], 2, axis=0), np.tile([0, 1], 20)),
    "all equal": (np.ones((30, 3)), np.arange(30) % 2),
}


@pytest.mark.parametrize("case", sorted(NO_MARGIN))
def test_margins_that_rounding_leaves_nothing_of(case: str) -> None:
    data, labels = NO_MARGIN[case]
    with pytest.warns(ConvergenceWarning, match="no margin between the classes"):
        model = mc.NuSVC(nu=0.3).fit(data, labels)
    assert not model.converged_
    assert np.abs(model.dual_coef_).max() <= 1.0
    assert np.isfinite(model.dual_gap_).all()


@pytest.mark.parametrize("nu", [1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e4])
def test_margins_of_any_size(nu: float, scale: float) -> None:
    """Of planes that part the classes, and one row a long way off: the conditions hold."""
    data, labels = X.copy(), (X[:, 0] > 0).astype(int)
    data[0] *= 1e3
    model = mc.NuSVC("linear", nu=nu).fit(scale * data, labels)
    assert model.converged_
    signs = np.where(labels == 1, 1.0, -1.0)
    margins = signs * model.decision_function(scale * data)
    bounds = np.abs(model.dual_coef_).max()
    errors = margins < 1 - 2e-3
    assert errors.mean() <= nu
    assert 0 <= model.dual_gap_[0] < 0.05 * model.objective_[0]
    assert (margins[model.support_][np.abs(model.dual_coef_[0]) < bounds] < 1 + 2e-3).all()


@pytest.mark.parametrize("scale", [1e-60, 1e60, 1e100, 1e140])
def test_margins_whose_squares_float64_does_not_have(scale: float) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 8)
    data = rng.normal(size=(16, 4)) + 3 * np.eye(4)[labels]
    model = mc.NuSVC("linear", nu=0.2, tol=1e-8)
    want = model.fit(data, labels).decision_function(data)
    objective = float(model.objective_[0])
    np.testing.assert_allclose(
        model.fit(scale * data, labels).decision_function(scale * data), want, atol=1e-5
    )
    assert model.objective_[0] * scale * scale == pytest.approx(objective, rel=1e-5)


# Rows of kernels that Python evaluates ----------------------------------------------------------


@pytest.mark.parametrize("machine", [mc.SVC, mc.SVR, mc.OneClassSVM])
def test_room_for_most_of_the_rows(machine: Any) -> None:
    data = RNG.normal(size=(2300, 3))
    y = (data[:, 0] * data[:, 1] > 0).astype(float)
    few = machine(laplacian_kernel, cache_size=38.0, tol=1e-5).fit(data, y)
    whole = machine(mc.Laplacian(length_scale=3.0), tol=1e-5).fit(data, y)
    new = data[:50] + 0.1
    values = "predict" if machine is mc.SVR else "decision_function"
    np.testing.assert_allclose(getattr(few, values)(new), getattr(whole, values)(new), atol=1e-3)


def test_pairs_that_share_rows() -> None:
    """Threads keep and drop rows of one store at the same time."""
    data, labels = RNG.normal(size=(400, 4)), RNG.integers(0, 6, 400)

    def gaussian(A: Array, B: Array) -> Array:
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1))

    with mc.threads(4):
        shared = mc.SVC(gaussian, cache_size=0.3, C=10.0, tol=1e-5).fit(data, labels)
    alone = mc.SVC("rbf", gamma=1.0, C=10.0, tol=1e-5).fit(data, labels)
    np.testing.assert_allclose(
        shared.decision_function(data), alone.decision_function(data), atol=1e-3
    )
