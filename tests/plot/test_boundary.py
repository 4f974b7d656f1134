"""Models of two inputs: surface, boundary, margins, data, coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_moons
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError

X, LABELS = make_moons(40, noise=0.2, random_state=0)
TARGET = X[:, 0] * X[:, 1]
CLASSIFIER = SVC().fit(X, LABELS)
draw = mc.plot.BoundaryDisplay.from_estimator


def test_the_surface_of_two_classes_is_the_decision_function() -> None:
    display = draw(CLASSIFIER, X, LABELS, grid_resolution=30)
    grid = np.column_stack([display.surface.xx0.ravel(), display.surface.xx1.ravel()])
    np.testing.assert_allclose(display.surface.response.ravel(), CLASSIFIER.decision_function(grid))
    assert (display.method, display.threshold) == ("decision_function", 0.0)
    assert display.margin_ is not None
    assert list(display.margin_.levels) == [-1.0, 1.0]
    low, high = X.min(axis=0), X.max(axis=0)
    np.testing.assert_allclose(grid.min(axis=0), low - 0.1 * (high - low))
    np.testing.assert_allclose(grid.max(axis=0), high + 0.1 * (high - low))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("$x_1$", "$x_2$")
    assert display.figure_.axes[-1].get_ylabel() == "decision function"


def test_the_boundary_is_where_the_decision_changes() -> None:
    display = draw(CLASSIFIER, X, LABELS, grid_resolution=100)
    (lines,) = display.boundary_
    on_boundary = np.concatenate([path.vertices for path in lines.get_paths()])
    assert np.abs(CLASSIFIER.decision_function(on_boundary)).max() < 0.02


def crossed(lines: Any, x: Any, y: Any) -> set[tuple[str, int, int]]:
    """The edges of a grid that lines cross: each of their vertices lies on one."""
    found = set()
    for across, up in np.concatenate([path.vertices for path in lines.get_paths()]):
        if np.abs(y - up).min() < 1e-9:
            found.add(("row", int(np.abs(y - up).argmin()), int(np.searchsorted(x, across)) - 1))
        else:
            found.add(("column", int(np.searchsorted(y, up)) - 1, int(np.abs(x - across).argmin())))
    return found


@pytest.mark.parametrize("size", [8, 80])
@pytest.mark.parametrize(
    "model",
    [
        mc.SVC(probability=True, random_state=0),
        mc.SVC(probability=True, random_state=0, decision_function_shape="ovo"),
        mc.SVC(probability=True, random_state=0, class_weight={"no": 1.0, "yes": 20.0}),
        mc.NuSVC(nu=0.2, probability=True, random_state=0),
        mc.NuSVC(nu=0.2, decision_function_shape="ovo"),
        mc.SVC(break_ties=False),
        FixedThresholdClassifier(mc.SVC(), threshold=-0.7, response_method="decision_function"),
        FixedThresholdClassifier(LogisticRegression(), threshold=0.8),
    ],
    ids=str,
)
def test_the_line_of_two_classes_is_where_predictions_change(model: Any, size: int) -> None:
    labels = np.where(X[:, 0] + X[:, 1] > 0.9, "yes", "no")
    display = draw(model.fit(X, labels), X, labels, grid_resolution=size)
    x, y = display.surface.xx0[0], display.surface.xx1[:, 0]
    predicted = model.predict([[a, b] for b in y for a in x]).reshape(size, size)
    changes = {("row", i, j) for i, j in np.argwhere(predicted[:, 1:] != predicted[:, :-1])}
    changes |= {("column", i, j) for i, j in np.argwhere(predicted[1:] != predicted[:-1])}
    (lines,) = display.boundary_
    assert crossed(lines, x, y) == changes
    assert display.method == "decision_function"
    assert display.margin_ is not None
    assert set(display.margin_.levels) <= {-1.0, 1.0}


def test_points_are_drawn_by_class() -> None:
    display = draw(CLASSIFIER, X, LABELS)
    for label, points in enumerate(display.points_):
        np.testing.assert_array_equal(points.get_offsets(), X[label == LABELS])
        assert points.get_label() == str(label)
    (unlabelled,) = draw(CLASSIFIER, X).points_
    np.testing.assert_array_equal(unlabelled.get_offsets(), X)


def test_a_surface_without_a_boundary() -> None:
    rare = LogisticRegression(C=1e-6).fit(X, np.arange(40) == 0)
    display = draw(rare, X)
    assert display.boundary_ == []
    flat = draw(LogisticRegression(C=1e-6).fit(X, LABELS), X)
    assert len(flat.boundary_) == 1
    assert flat.margin_ is None


@pytest.mark.parametrize("method", ["predict_proba", "predict"])
def test_other_responses_have_their_boundary_at_a_half(method: Any) -> None:
    model = LogisticRegression().fit(X, LABELS)
    display = draw(model, X, LABELS, response_method=method)
    assert display.threshold == 0.5
    assert display.margin_ is None
    drawn = [ax.get_ylabel() for ax in display.figure_.axes[1:]]
    assert drawn == (["probability of 1"] if method == "predict_proba" else [])


@pytest.mark.parametrize("method", ["decision_function", "predict_proba", "predict"])
def test_three_classes(method: Any) -> None:
    iris = load_iris()
    names = iris.target_names[iris.target]
    model = LogisticRegression(max_iter=1000).fit(iris.data[:, 2:], names)
    display = draw(model, iris.data[:, 2:], names, response_method=method, grid_resolution=60)
    assert len(display.boundary_) == len(display.points_) == 3
    assert [points.get_label() for points in display.points_] == list(iris.target_names)
    assert display.margin_ is None
    if method != "predict":
        (middle,) = [np.concatenate([path.vertices for path in display.boundary_[1].get_paths()])]
        scores = np.sort(getattr(model, method)(middle), axis=1)
        assert np.abs(scores[:, -1] - scores[:, -2]).max() < 0.1


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (mc.SVC(decision_function_shape="ovo"), "predict"),
        (SVC(decision_function_shape="ovo"), "predict"),
        (make_pipeline(StandardScaler(), mc.SVC(decision_function_shape="ovo")), "predict"),
        (mc.SVC(), "decision_function"),
        (mc.SVC(multi_class="ovr"), "decision_function"),
        (mc.SVC("linear", C=100.0, break_ties=False), "predict"),
        (mc.SVC(probability=True, random_state=0), "predict_proba"),
        (mc.SVC(probability=True, random_state=0, multi_class="ovr"), "predict_proba"),
        (mc.NuSVC(nu=0.9, probability=True, random_state=0), "predict_proba"),
        (mc.NuSVC(nu=0.9, decision_function_shape="ovo"), "predict"),
    ],
    ids=str,
)
def test_the_colour_is_that_of_the_class_predicted(model: Any, method: str) -> None:
    data, y = load_iris(return_X_y=True)
    data = pd.DataFrame(data[:, :2], columns=["length", "width"])
    display = draw(model.fit(data, y), data, y, grid_resolution=50)
    grid = np.column_stack([display.surface.xx0.ravel(), display.surface.xx1.ravel()])
    response = display.surface.response
    drawn = response if response.ndim == 2 else response.argmax(axis=2)
    predicted = model.predict(pd.DataFrame(grid, columns=data.columns))
    np.testing.assert_array_equal(drawn.ravel(), predicted)
    assert display.method == method
    if method != "decision_function":
        with pytest.raises(ParameterError, match="is not everywhere largest for the class"):
            draw(model, data, y, response_method="decision_function", grid_resolution=50)


def test_rings_are_drawn_round_support_vectors() -> None:
    similarity = mc.Sigmoid(gain=2.0, offset=-1.0)
    model = mc.SVC(similarity, psd="clip").fit(X, LABELS)
    assert len(model.support_) < len(X) == len(model.points_)
    display = draw(model, X, LABELS)
    assert display.rings_ is not None
    sizes = np.abs(model.dual_coef_[0])
    shown = sizes > 1e-6 * sizes.max()
    np.testing.assert_array_equal(display.rings_.get_offsets(), X[model.support_][shown])
    drawn = display.rings_.get_sizes()
    np.testing.assert_allclose(drawn / drawn.max(), sizes[shown] / sizes.max())


@pytest.mark.parametrize(
    "search",
    [
        mc.SVCSearch(Cs=[1.0, 10.0], length_scales=[0.5]),
        GridSearchCV(mc.SVC(mc.RBF(length_scale=0.5)), {"C": [1.0, 10.0]}),
    ],
    ids=lambda search: type(search).__name__,
)
def test_rings_of_a_search_are_those_of_its_best(search: Any) -> None:
    rings = draw(search.fit(X, LABELS), X, LABELS).rings_
    best = draw(search.best_estimator_, X, LABELS).rings_
    assert rings is not None
    assert best is not None
    np.testing.assert_array_equal(rings.get_offsets(), best.get_offsets())
    np.testing.assert_array_equal(rings.get_sizes(), best.get_sizes())


def test_a_regressor_shares_its_colours_with_the_targets() -> None:
    model = mc.KernelRidge(mc.RBF(length_scale=0.5), alpha=0.1).fit(X, TARGET)
    display = draw(model, X, TARGET)
    assert display.boundary_ == []
    (points,) = display.points_
    assert points.norm is display.surface.surface_.norm
    np.testing.assert_array_equal(points.get_array(), TARGET)
    assert display.figure_.axes[-1].get_ylabel() == "f(x)"


def test_rings_have_areas_in_proportion_to_coefficients() -> None:
    model = mc.KernelRidge(mc.RBF(length_scale=0.5), alpha=0.1)
    weights = np.ones(len(X))
    weights[:5] = 0
    model.fit(X, TARGET, weights)
    display = draw(model, X, TARGET)
    assert display.rings_ is not None
    sizes = np.abs(model.dual_coef_[5:])
    np.testing.assert_array_equal(display.rings_.get_offsets(), X[5:])
    np.testing.assert_allclose(
        display.rings_.get_sizes() / display.rings_.get_sizes().max(), sizes / sizes.max()
    )
    assert draw(model, X, coefficients=False).rings_ is None
    assert draw(CLASSIFIER, X).rings_ is None
    assert draw(mc.KernelRidge(mc.RBF()).fit(X, np.zeros(40)), X).rings_ is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_keep_their_names(frame: Any) -> None:
    data = frame({"length": X[:, 0], "width": X[:, 1]})
    display = draw(mc.KernelRidge(mc.RBF()).fit(data, TARGET), data)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("length", "width")


def test_two_columns_are_needed() -> None:
    cube = np.column_stack([X, TARGET])
    model = SVC().fit(cube, LABELS)
    with pytest.raises(DataError, match=r"X has shape \(40, 3\), but 2 columns can be drawn"):
        draw(model, cube)
    with pytest.raises(DataError, match=r"SVC cannot be drawn over two columns: .*3 features"):
        draw(model, X)
    ridge = mc.KernelRidge(mc.RBF()).fit(cube, TARGET)
    with pytest.raises(DataError, match=r"KernelRidge cannot be drawn over two columns: .*\b3\b"):
        draw(ridge, X)


def test_several_targets_cannot_be_drawn() -> None:
    model = mc.KernelRidge(mc.RBF()).fit(X, np.column_stack([TARGET, -TARGET]))
    with pytest.raises(DataError, match="Multi-output"):
        draw(model, X)


def test_bad_input_is_refused() -> None:
    with pytest.raises(DataError, match="SVC was not fitted with; pass labels among 0, 1"):
        draw(CLASSIFIER, X, LABELS + 1)
    with pytest.raises(ParameterError, match="response_method = 'guess' is unknown"):
        draw(CLASSIFIER, X, response_method="guess")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="SVC has no predict_proba"):
        draw(CLASSIFIER, X, response_method="predict_proba")
    with pytest.raises(ParameterError, match="grid_resolution"):
        draw(CLASSIFIER, X, grid_resolution=1)


@pytest.mark.parametrize("model", [mc.OneClassSVM(nu=0.2), mc.SVDD(nu=0.2), IsolationForest()])
def test_machines_of_one_class(model: Any) -> None:
    labels = model.fit(X).predict(X)
    display = draw(model, X, labels, grid_resolution=40)
    assert (display.method, display.threshold) == ("decision_function", 0.0)
    assert display.classes is not None
    assert display.classes.tolist() == [-1, 1]
    assert display.margin_ is None
    (contour,) = display.boundary_
    for line in contour.get_paths():
        reach = np.abs(model.decision_function(X)).max()
        assert np.abs(model.decision_function(line.vertices)).max() < 0.2 * reach
    assert (display.rings_ is None) == isinstance(model, IsolationForest)


def test_other_models_are_refused() -> None:
    with pytest.raises(ParameterError, match="KMeans is neither a classifier nor a"):
        draw(KMeans(3, n_init=1, random_state=0).fit(X), X)


def test_a_constant_is_drawn_without_its_rounding() -> None:
    for level in (0.0, 3.0, 1e12):
        flat = mc.KernelRidge(mc.RBF()).fit(X, np.full(40, level))
        low, high = draw(flat, X).surface.surface_.get_clim()
        assert high - low > 0.1 * level


def test_targets_of_two_values_have_a_line_between_them() -> None:
    for low, high in ((-1.0, 1.0), (0.0, 1.0)):
        targets = np.where(LABELS == 1, high, low)
        model = mc.KernelRidge(mc.RBF(length_scale=0.5), alpha=0.1).fit(X, targets)
        display = draw(model, X, targets, grid_resolution=100)
        assert display.threshold == (low + high) / 2
        (lines,) = display.boundary_
        on_line = np.concatenate([path.vertices for path in lines.get_paths()])
        np.testing.assert_allclose(model.predict(on_line), (low + high) / 2, atol=0.02)
        assert len(display.points_) == 2
        assert display.figure_.axes[-1].get_ylabel() == "f(x)"


def legend_of(display: Any) -> list[str]:
    legend = display.ax_.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_the_legend_names_lines_and_rings() -> None:
    model = mc.SVC(mc.RBF(length_scale=0.5)).fit(X, LABELS)
    names = legend_of(draw(model, X, LABELS))
    assert names == ["0", "1", "support vectors (area: weight)", "boundary", "margin, f = ±1"]
    display = draw(mc.OneClassSVM(nu=0.2).fit(X), X)
    assert legend_of(display)[:2] == ["outliers (-1)", "inliers (1)"]
    assert f"{len(model.support_)} support vectors" in draw(model, X).ax_.get_title()


def test_at_most_sixty_rings_are_drawn_the_largest() -> None:
    many, target = make_moons(100, noise=0.2, random_state=1)
    model = mc.KernelRidge(mc.RBF(length_scale=0.5), alpha=0.1).fit(many, target)
    display = draw(model, many)
    assert display.rings_ is not None
    largest = np.argsort(-np.abs(model.dual_coef_))[:60]
    drawn = {tuple(row) for row in np.asarray(display.rings_.get_offsets())}
    assert drawn == {tuple(row) for row in many[largest]}
    assert "60 largest coefficients (area: weight)" in legend_of(display)


def test_both_sides_of_one_class_reach_full_colour() -> None:
    display = draw(mc.OneClassSVM(nu=0.2).fit(X), X, grid_resolution=60)
    norm = display.surface.surface_.norm
    response = display.surface.response
    assert response.max() < -0.5 * response.min()
    np.testing.assert_allclose(norm([response.min(), 0.0, response.max()]), [0.0, 0.5, 1.0])


def test_predicted_classes_have_smooth_boundaries() -> None:
    iris = load_iris()
    plane = iris.data[:, 2:]
    model = LogisticRegression(max_iter=1000).fit(plane, iris.target)
    display = draw(model, plane, response_method="predict", grid_resolution=80)
    lengths = []
    for shown in (display, draw(model, plane, grid_resolution=80)):
        paths = [path for lines in shown.boundary_ for path in lines.get_paths()]
        steps = [np.diff(path.vertices, axis=0) for path in paths]
        lengths.append(sum(float(np.hypot(*step.T).sum()) for step in steps))
    assert lengths[0] == pytest.approx(lengths[1], rel=0.05)  # steps would add a third or so


def test_a_column_of_times_is_refused() -> None:
    times = np.array("2020-01-01", "M8[D]") + np.arange(40)
    data = pd.DataFrame({"day": times.astype("M8[ns]"), "size": X[:, 0]})
    model = mc.KernelRidge(mc.RBF()).fit(data, TARGET)
    with pytest.raises(DataTypeError, match=r"column of times, .* pass it as numbers"):
        draw(model, data)
