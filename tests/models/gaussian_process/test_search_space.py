"""Where hyper-parameters are searched: bounds, restarts and the one warning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import NumericalWarning
from mercer.models.gaussian_process.search_space import SearchSpace, Variance, extent, warn_of
from mercer.solvers.likelihood import maximise

Array = NDArray[np.floating[Any]]

X = np.column_stack([np.arange(5.0), [0.0, 10.0, 30.0, 70.0, 150.0]])


def space_of(kernel: mc.Kernel, data: Any = X, variance: float = 1.0) -> SearchSpace:
    return SearchSpace.of(kernel, kernel.prepare(data), Variance(variance))


def bounds_of(kernel: mc.Kernel, data: Any = X, variance: float = 1.0) -> dict[str, list[float]]:
    space = space_of(kernel, data, variance)
    ends = np.exp(space.bounds).tolist()
    return {name: pytest.approx(pair) for name, pair in zip(space.names, ends, strict=True)}


def test_names_and_starts_are_those_of_theta() -> None:
    kernel = (
        2.0 * mc.RBF([1.0, 2.0])
        + mc.Fixed(3.0) * mc.Periodic().on(0) * mc.RBF(mc.Fixed(2.0)).on(1)
        + mc.RationalQuadratic()
        + mc.White() * 0.5
        + mc.Constant(2.0)
        + mc.SpectralMixture(
            weights=[1.0, 2.0], frequencies=np.zeros((2, 2)), length_scale=np.ones((2, 2))
        )
        + mc.Sigmoid()
    )
    space = space_of(kernel)
    assert list(space.names) == kernel.theta_names
    np.testing.assert_allclose(space.start, kernel.theta)
    low, high = space.bounds.T
    assert np.all((low <= space.start) & (space.start <= high))
    assert np.all((low <= space.usual[:, 0]) & (space.usual[:, 1] <= high))


def test_length_scales_lie_between_spacing_and_range_of_what_their_kernel_sees() -> None:
    assert bounds_of(mc.RBF([1.0, 20.0])) == {
        "length_scale[0]": [0.1, 4e5],
        "length_scale[1]": [1.0, 1.5e7],
    }
    assert bounds_of(mc.RBF().on(1)) == {"length_scale": [1.0, 1.5e5]}
    both = bounds_of(mc.RBF())
    assert both == {"length_scale": [0.1, 1e3 * np.hypot(4, 150)]}
    # The same kernel twice, on columns of its own.
    kernel = mc.RBF()
    assert bounds_of(kernel.on(0) + kernel.on(1)) == {
        "rbf_1__length_scale": [0.1, 4e3],
        "rbf_2__length_scale": [1.0, 1.5e5],
    }


def test_close_points_do_not_make_bounds_absurd() -> None:
    assert bounds_of(mc.RBF(), [[0.0], [1e-9], [1.0]]) == {"length_scale": [1e-4, 1e3]}
    assert bounds_of(mc.RBF(), np.full((3, 1), 7.0)) == {"length_scale": [0.1, 1e3]}


def test_variances_are_relative_to_the_targets_and_to_the_kernel() -> None:
    low, high = 1e-8, 1e8
    assert bounds_of(2.0 * mc.RBF(mc.Fixed(1.0)), variance=4.0)["scale"] == [4 * low, 4 * high]
    mean = np.mean(np.sum(X**2, axis=1))
    assert bounds_of(1.0 * mc.Linear())["scale"] == [low / mean, high / mean]


def test_given_bounds_win_and_impossible_starts_move() -> None:
    space = space_of(mc.RBF(mc.Bounded(5e4, 1e4, 1e6)))
    np.testing.assert_allclose(np.exp(space.bounds), [[1e4, 1e6]])
    assert np.exp(space.usual[0, 0]) == pytest.approx(1e4)
    moved = space_of(mc.RBF(1e-30))
    assert moved.usual[0, 0] < moved.start[0] < moved.usual[0, 1]
    # One end beyond what the data suggest leaves room on the other side.
    half = mc.RBF(mc.Bounded(1e8, 1e7, float("inf")))
    low, high = space_of(half).bounds[0]
    assert low < high


def test_restarts_are_reproducible_and_inside_the_bounds() -> None:
    space = space_of(2.0 * mc.RBF([1.0, 2.0])).with_noise(0.1, 1.0)
    drawn = space.restarts(50, 0)
    assert drawn.shape == (50, 4)
    assert np.all((space.bounds[:, 0] <= drawn) & (drawn <= space.bounds[:, 1]))
    np.testing.assert_array_equal(drawn, space.restarts(50, 0))
    assert np.any(drawn != space.restarts(50, 1))
    assert space.restarts(0, None).shape == (0, 4)


def test_the_extent_of_sparse_data_is_that_of_dense_ones_where_zeros_are_common() -> None:
    dense = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    spacing, spread = extent(sp.csr_array(dense))
    np.testing.assert_allclose(spread, extent(dense)[1])
    assert np.all(spacing <= spread)
    empty = extent(sp.csr_array((3, 2)))
    np.testing.assert_array_equal(empty, np.ones((2, 2)))


def climb(space: SearchSpace, direction: float) -> maximise.Optimum:
    return maximise.maximise(
        lambda theta: (direction * float(theta.sum()), np.full(len(theta), direction)),
        space.start,
        space.bounds,
    )


@pytest.mark.parametrize(
    ("kernel", "direction", "warned"),
    [
        (mc.RBF(), 1.0, None),  # a column that does not matter
        (mc.RBF(), -1.0, "length_scale (low)"),
        (1.0 * mc.RBF(mc.Fixed(1.0)), -1.0, None),  # a part that does not matter
        (1.0 * mc.RBF(mc.Fixed(1.0)), 1.0, "scale (high)"),
        (mc.RBF(mc.Bounded(1.0, 0.5, 2.0)), -1.0, None),  # what the user asked for
    ],
)
def test_bounds_that_mean_something_are_named(
    kernel: mc.Kernel, direction: float, warned: str | None, recwarn: pytest.WarningsRecorder
) -> None:
    space = space_of(kernel)
    optimum = climb(space, direction)
    assert len(space.names_at(optimum, harmless=True)) == 1
    if warned is None:
        warn_of("GP", space, optimum)
        assert not recwarn.list
        return
    with pytest.warns(NumericalWarning, match=r"GP: first; .* ended at a bound") as found:
        warn_of("GP", space, optimum, "first", "")
    assert len(found) == 1
    assert warned in str(found[0].message)


def test_categories_that_do_not_matter_are_no_reason_to_warn() -> None:
    points = mc.Points([["a"], ["b"], ["a"]])
    space = SearchSpace.of(mc.Categorical(1.0), points)
    assert space.names == ("weight",)
    assert space.harmless.tolist() == [[True, False]]
