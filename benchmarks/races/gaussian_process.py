"""Gaussian process regression: one evaluation of the evidence, its memory, and a whole fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels

import mercer as mc
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_least,
    at_most,
    limited,
    peak_bytes,
    race,
    speedup,
    touch_memory,
)

Array = NDArray[Any]

N = 2_000
D = 6
LENGTH_SCALE = 2.0
NOISE = 0.1

SKLEARN = 3.5
GPYTORCH = 5.0
GRAMS = 4.0
FIT = 4.0
WORSE = 0.01  # nats: what the tolerance of the search leaves open


def available() -> bool:
    """Whether GPyTorch can take part."""
    return find_spec("gpytorch") is not None


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    touch_memory(4 * settings.size(N) ** 2 * 8)
    yield from _evaluations(settings)
    yield _memory(settings)
    yield from _fits(settings)


def _data(n: int) -> tuple[Array, Array]:
    """A smooth function in which every column counts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    y = np.sin(X * np.linspace(0.5, 1.5, D)).sum(axis=1)
    return X, y - y.mean() + np.sqrt(NOISE) * rng.normal(size=n)


# One evaluation -----------------------------------------------------------------------------------


def _evaluations(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(N)
    X, y = _data(n)
    contestants = [
        Contestant("mercer", mercer_evaluation(n)),
        Contestant("scikit-learn", peer_evaluation(n)),
    ]
    if available():
        contestants.append(Contestant("GPyTorch", _gpytorch_evaluation(X, y)))
    times = race(contestants, settings)
    what = "log marginal likelihood with gradient"
    parameters = f"float64 d={D} ARD n={n}"
    yield speedup(what, parameters, times, "scikit-learn", at_least(SKLEARN))
    if available():
        yield speedup(what, f"{parameters}, Cholesky", times, "GPyTorch", at_least(GPYTORCH))


def _memory(settings: Settings) -> Outcome:
    n = settings.size(N)
    gram = n * n * 8
    mine = peak_bytes(mercer_fit_and_evaluation, n=n) / gram
    peer = peak_bytes(peer_fit_and_evaluation, n=n) / gram
    return Outcome(
        "log marginal likelihood with gradient, peak memory",
        f"float64 d={D} ARD n={n}, in Gram matrices, with that of the fitted model",
        mine,
        "scikit-learn",
        peer,
        mine,
        at_most(GRAMS),
        unit="Grams",
    )


def _mercer(**parameters: Any) -> mc.GaussianProcessRegressor:
    kernel = 1.0 * mc.RBF(np.full(D, LENGTH_SCALE))
    settings = {"noise": NOISE, "normalize_y": False, "mean": "zero"}  # as the peers
    return mc.GaussianProcessRegressor(kernel, **(settings | parameters))


def _peer(**parameters: Any) -> Peer:
    lengths = kernels.RBF(np.full(D, LENGTH_SCALE))
    kernel = kernels.ConstantKernel() * lengths + kernels.WhiteKernel(NOISE)
    return Peer(kernel, alpha=0.0, **parameters)


def mercer_evaluation(n: int) -> Any:
    """Evidence and gradient at given hyper-parameters."""
    model = _mercer(learn=False).fit(*_data(n))
    theta = model.theta_ + 0.1
    return lambda: model.log_marginal_likelihood_gradient(theta)[1]


def peer_evaluation(n: int) -> Any:
    """The peer's."""
    model = _peer(optimizer=None).fit(*_data(n))
    theta = model.kernel_.theta + 0.1
    return lambda: model.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)[1]


def mercer_fit_and_evaluation(n: int) -> Any:
    """The same from data on: memory that a fit left behind would hide what the evaluation takes."""
    X, y = _data(n)
    return lambda: _mercer(learn=False).fit(X, y).log_marginal_likelihood_gradient()


def peer_fit_and_evaluation(n: int) -> Any:
    """The peer's."""
    X, y = _data(n)

    def run() -> Any:
        model = _peer(optimizer=None).fit(X, y)
        return model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)

    return run


def _gpytorch_evaluation(X: Array, y: Array) -> Any:
    """GPyTorch's exact marginal likelihood by Cholesky, in double precision."""
    import gpytorch
    import torch

    inputs, targets = torch.as_tensor(X), torch.as_tensor(y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(inputs, targets, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            rbf = gpytorch.kernels.RBFKernel(ard_num_dims=D)
            self.covar_module = gpytorch.kernels.ScaleKernel(rbf)

        def forward(self, x: Any) -> Any:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    model = Model().double()
    factor = np.exp(0.1)  # the same hyper-parameters as the others
    model.covar_module.outputscale = factor
    model.covar_module.base_kernel.lengthscale = LENGTH_SCALE * factor
    likelihood.noise = NOISE * factor
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()

    def run() -> None:
        model.zero_grad()
        with gpytorch.settings.fast_computations(False, False, False):
            evidence(model(inputs), targets).backward()

    return run


# A whole fit --------------------------------------------------------------------------------------


def _fits(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(N)
    X, y = _data(n)
    mine, model = _timed(lambda: _mercer().fit(X, y))
    other, peer = _timed(lambda: _peer().fit(X, y))
    parameters = f"float64 d={D} ARD n={n}, all hyper-parameters"
    times = {"mercer": mine, "scikit-learn": other}
    what = "GaussianProcessRegressor.fit"
    note = f"{model.n_evaluations_} evaluations"
    yield speedup(what, parameters, times, "scikit-learn", at_least(FIT), note=note)
    value, peer_value = model.log_marginal_likelihood_, peer.log_marginal_likelihood_value_
    yield Outcome(
        f"{what}, log marginal likelihood",
        parameters,
        value,
        "scikit-learn",
        peer_value,
        value - peer_value,
        at_least(-WORSE),
        unit="nats",
        figure_unit="nats",
    )


def _timed(fit: Any) -> tuple[float, Any]:
    """One run each: a fit takes a minute, and a hundred evaluations in it average the noise."""
    with limited(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model = fit()
        return time.perf_counter() - start, model
