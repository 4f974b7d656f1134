"""What Gaussian processes share: the search, its interrupts and its callbacks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import DataTypeError, NumericalWarning
from mercer.models.gaussian_process import exact
from mercer.models.gaussian_process.exact import ExactObjective
from model_samples import ARD, SMOOTH, drawn

Array = NDArray[np.floating[Any]]
GP = mc.GaussianProcessRegressor

X, Y, _, Z, _, _ = SMOOTH
RBF = ARD


def test_nothing_to_learn() -> None:
    model = GP(mc.RBF(mc.Fixed(1.0)), noise=mc.Fixed(0.1)).fit(X, Y)
    assert model.converged_
    assert (model.n_iter_, model.theta_.size, model.theta_names_) == (0, 0, ())


def test_restarts_find_the_better_of_two_maxima_and_are_reproducible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.linspace(0, 10, 30)[:, None]
    y = np.sin(3 * x).ravel()
    kernel = 1.0 * mc.RBF(length_scale=300.0)
    np.testing.assert_allclose(GP(kernel).fit(x, y).predict(x), y, atol=0.1)
    monkeypatch.setattr(exact, "_CHEAP_ROWS", 0)
    assert GP(kernel).fit(x, y).predict(x).std() < 0.1  # all of it is noise
    restarted = GP(kernel, n_restarts=5, random_state=0).fit(x, y)
    np.testing.assert_allclose(restarted.predict(x), y, atol=0.1)
    again = GP(kernel, n_restarts=5, random_state=0).fit(x, y)
    assert again.kernel_ == restarted.kernel_


def test_too_few_iterations_are_said() -> None:
    # From five starts.
    with pytest.warns(NumericalWarning, match="stopped after 10 iterations.*raise max_iter"):
        model = GP(RBF, max_iter=2).fit(X, Y)
    assert (model.converged_, model.n_iter_) == (False, 10)


@pytest.mark.parametrize("kind", [GP, mc.GaussianProcessClassifier])
def test_more_restarts_are_never_worse(kind: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(25, 3))
    y = np.sin(7 * x[:, 0]) + 0.3 * rng.normal(size=25)
    y = y if kind is GP else y > 0
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # bounds
        for number in range(5):
            model = kind(1.0 * mc.RBF([1.0] * 3), n_restarts=number, random_state=0).fit(x, y)
            values.append(model.log_marginal_likelihood_)
    assert values == sorted(values)


@pytest.mark.parametrize("kind", [GP, mc.GaussianProcessClassifier])
def test_the_likelihood_can_be_drawn_outside_given_bounds(kind: Any) -> None:
    labels = Y if kind is GP else np.sign(Y - np.median(Y) - 1e-9)
    bounded = mc.Bounded(1.7, 1.0, 2.0) * mc.RBF(mc.Bounded([1.0, 2.0, 3.0], 0.5, 4.0))
    settings = {"noise": 0.3} if kind is GP else {}
    model = kind(bounded, learn=False, **settings).fit(X, labels)
    plain = kind(RBF, learn=False, **settings).fit(X, labels)
    theta = model.theta_ + 3.0
    value = plain.log_marginal_likelihood(theta)
    assert model.log_marginal_likelihood(theta) == pytest.approx(value)
    mine, other = (m.log_marginal_likelihood_gradient(theta)[1] for m in (model, plain))
    np.testing.assert_allclose(mine, other)
    assert model.kernel_ == bounded


def test_an_interrupt_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:

    whole, calls = ExactObjective.value_and_gradient, 0

    def interrupted(self: Any, theta: Array, criterion: str) -> Any:
        nonlocal calls
        calls += 1
        if calls > 8:
            raise KeyboardInterrupt
        return whole(self, theta, criterion)

    model = GP(RBF)
    monkeypatch.setattr(ExactObjective, "value_and_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    monkeypatch.undo()
    assert model.converged_ is False
    assert model.n_iter_ >= 1
    start = GP(RBF, noise=0.1 * Y.var(), learn=False).fit(X, Y)
    assert model.log_marginal_likelihood_ > start.log_marginal_likelihood_
    assert model.predict(Z, return_std=True)[1].shape == (9,)
    assert model.n_evaluations_ == 8
    assert model.at_bounds_ == ()
    _, gradient = model.log_marginal_likelihood_gradient()
    assert model.gradient_norm_ == pytest.approx(np.abs(gradient).max(), rel=1e-6)


def test_an_interrupt_of_the_second_evaluation_keeps_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    whole, calls = ExactObjective.value_and_gradient, 0

    def interrupted(self: Any, theta: Array, criterion: str) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KeyboardInterrupt
        return whole(self, theta, criterion)

    model = GP(RBF, noise=0.1)
    monkeypatch.setattr(ExactObjective, "value_and_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert (model.converged_, model.n_iter_, model.n_evaluations_) == (False, 0, 1)
    held = GP(RBF, noise=0.1, learn=False).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), held.predict(Z), rtol=1e-9)


def test_an_interrupt_after_the_search_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The last step, conditioning on all data, is as long as one of the search.
    from mercer.models.gaussian_process.exact import ExactPosterior

    whole = GP(RBF, noise=0.1).fit(X, Y)
    original, calls = ExactPosterior.at, 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(ExactPosterior, "at", interrupted)
    model = GP(RBF, noise=0.1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    np.testing.assert_allclose(model.theta_, whole.theta_)
    np.testing.assert_allclose(model.predict(Z), whole.predict(Z))


def test_callbacks_see_every_iteration_and_can_stop() -> None:
    seen: list[float] = []

    class Watch:
        def setup(self, estimator: Any, context: Any) -> None: ...
        def teardown(self, estimator: Any, context: Any) -> None: ...
        def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None: ...

        def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any) -> bool:
            if context.task_name == "iteration":
                assert fitted_estimator.predict(Z).shape == (9,)
                seen.append(fitted_estimator.log_marginal_likelihood_)
            return len(seen) >= 3

    model = GP(RBF)
    model.set_callbacks(Watch())
    model.fit(X, Y)
    assert not model.converged_  # without a warning: the callback knows
    assert len(seen) == 3  # the start and two iterations
    assert seen == sorted(seen)
    assert model.log_marginal_likelihood_ == pytest.approx(seen[-1])


@pytest.mark.parametrize("kind", [GP, mc.GaussianProcessClassifier])
def test_blocks_are_refused_with_a_remedy(kind: Any) -> None:
    X = np.arange(12.0)[:, None]
    parts = [(X[:6], X[:6, 0] > 3), (X[6:], X[6:, 0] > 9)]
    for blocks in (mc.Blocks(parts), iter(parts)):
        with pytest.raises(DataTypeError, match=r"in blocks, but .*pass some of them as arrays"):
            kind().fit(blocks, None)


def test_the_remedy_for_blocks_has_the_same_mean() -> None:
    X, y = drawn(0.5, n=200)
    gp = GP(1.0 * mc.RBF(length_scale="scale"), normalize_y=True).fit(X, y)
    alpha = gp.noise_ / gp.y_scale_**2
    ridge = mc.KernelRidge(gp.kernel_, alpha=alpha, fit_intercept=False).fit(X, y - gp.intercept_)
    assert_allclose(ridge.predict(X) + gp.intercept_, gp.predict(X), atol=1e-7)
