"""Many rows: landmarks, preconditioned iterations and Falkon's product."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline

import mercer as mc
from benchmarks import child
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
from mercer import memory

Array = NDArray[Any]
Work = Callable[[], dict[str, Any]]

N, D, M = 100_000, 20, 1_000
ALPHA = 0.1
LENGTH = math.sqrt(D)
SHORT = LENGTH / 2  # landmarks are nearly orthogonal, and each carries little
DOUBLE, SINGLE = 2.5, 2.0
MEMORY = 0.25
WORSE = 0.05  # percent of test error: landmarks are the same, rounding is not

PCG_N, PCG_D, PCG_ALPHA, PCG_TOL = 20_000, 10, 0.01, 1e-6
PCG = 3.0
PCG_FACTORS = 2.0  # of n x rank numbers: memory is O(n rank)
PCG_ROUNDS = 2
PCG_CHECKED = 1_000  # equations whose residual is computed by a peer's kernel

FALKON_N, FALKON_M, FALKON_D = 200_000, 2_000, 10
FALKON = 1.7

MILLION, MILLION_D, MILLION_M, MILLION_NEW = 1_000_000, 18, 2_000, 100_000
MILLION_BYTES = 2e9
PEER_COPIES = 2.3  # of its features, which it holds all at once: a quarter of the rows otherwise


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    touch_memory(settings.size(N) * M * 8 // 2)
    for dtype, required in (("float64", DOUBLE), ("float32", SINGLE)):
        yield from _fits(settings, dtype, required)
    yield from _falkon(settings)
    yield from _iterations(settings)
    yield from _million(settings)


def data(n: int, d: int, dtype: str, seed: int = 0) -> tuple[Array, Array]:
    """A smooth function of all columns, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(X @ np.linspace(0.2, 1.0, d) / math.sqrt(d)) + np.cos(X[:, 0]) * X[:, 1]
    return X.astype(dtype), (y + 0.1 * rng.normal(size=n)).astype(dtype)


# Landmarks ----------------------------------------------------------------------------------------


def mercer_fit(n: int, d: int, m: int, dtype: str, length: float = LENGTH) -> Any:
    """A fit on landmarks."""
    X, y = data(n, d, dtype)
    solver = mc.solvers.NystromSolver(min(m, n), landmarks=_chosen(n, m))
    model = mc.KernelRidge(mc.RBF(length), ALPHA, solver=solver)
    return lambda: model.fit(X, y)


def peer_fit(n: int, d: int, m: int, dtype: str, length: float = LENGTH) -> Any:
    """The peer's, which chooses its landmarks at random too."""
    X, y = data(n, d, dtype)
    features = Nystroem(gamma=1 / (2 * length**2), n_components=min(m, n), random_state=0)
    return lambda: make_pipeline(features, Ridge(ALPHA)).fit(X, y)


def _chosen(n: int, m: int) -> Array:
    """The rows that the peer takes with random state 0."""
    return np.random.RandomState(0).permutation(n)[:m]


def _fits(settings: Settings, dtype: str, required: float) -> Iterator[Outcome]:
    n = settings.size(N)
    parameters = f"{dtype} d={D} n={n}, {M} landmarks"
    mine, peer = mercer_fit(n, D, M, dtype), peer_fit(n, D, M, dtype)
    contestants = [
        Contestant("mercer", _only(mine)),
        Contestant("Nystroem + Ridge", _only(peer)),
    ]
    times = race(contestants, settings)
    yield speedup(
        "KernelRidge(solver=NystromSolver)",
        parameters,
        times,
        "Nystroem + Ridge",
        at_least(required),
    )
    yield _memory(n, dtype)
    yield _test_error(parameters, mine(), peer(), dtype)
    if dtype == "float32":
        short = [fit(n, D, M, dtype, SHORT)() for fit in (mercer_fit, peer_fit)]
        yield _test_error(f"{parameters}, length-scale {SHORT:.2f}", *short, dtype)


def _only(run: Any) -> Any:
    """The call without its result: models are not compared by their arrays."""

    def call() -> None:
        run()

    return call


def _memory(n: int, dtype: str) -> Outcome:
    sizes = {"n": n, "d": D, "m": M, "dtype": dtype}
    mine, peer = peak_bytes(mercer_fit, **sizes), peak_bytes(peer_fit, **sizes)
    return Outcome(
        "KernelRidge(solver=NystromSolver), peak memory",
        f"{dtype} d={D} n={n}, {M} landmarks",
        mine / 1e6,
        "Nystroem + Ridge",
        peer / 1e6,
        mine / peer,
        at_most(MEMORY),
        unit="MB",
    )


def _test_error(parameters: str, mine: Any, peer: Any, dtype: str) -> Outcome:
    X, y = data(10_000, D, dtype, seed=1)
    errors = [math.sqrt(mean_squared_error(y, model.predict(X))) for model in (mine, peer)]
    return Outcome(
        "KernelRidge(solver=NystromSolver), test RMSE",
        f"{parameters}, the same",
        errors[0],
        "Nystroem + Ridge",
        errors[1],
        100 * (errors[0] / errors[1] - 1),
        at_most(WORSE),
        unit="",
        figure_unit="%",
    )


# Falkon's product ---------------------------------------------------------------------------------


def _falkon(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(FALKON_N)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, FALKON_D)).astype(np.float32)
    Z = rng.normal(size=(FALKON_M, FALKON_D)).astype(np.float32)
    v = rng.normal(size=FALKON_M).astype(np.float32)
    gram = mc.RBF(math.sqrt(FALKON_D)).gram(X, Z)
    contestants = [
        Contestant("mercer", lambda: gram.normal_matmat(v)),
        Contestant("two products", lambda: gram.T @ (gram @ v)),
    ]
    times = race(contestants, settings)
    parameters = f"float32 d={FALKON_D} n={n}, {FALKON_M} landmarks"
    yield speedup("K.T @ (K @ v)", parameters, times, "two products", at_least(FALKON))


# The whole matrix ---------------------------------------------------------------------------------


def _iterations(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(PCG_N)
    X, y = _system(n)
    kernel = mc.RBF(math.sqrt(PCG_D))
    ways = {
        "mercer": partial(_iterated, kernel, X, y, "rpcholesky"),
        "Cholesky": partial(_dense, kernel, X, y),
        "no preconditioner": partial(_iterated, kernel, X, y, None),
    }
    once = ("no preconditioner",)
    times, counts = dict.fromkeys(ways, math.inf), dict.fromkeys(ways, 0)
    for name in (*once, *(PCG_ROUNDS * [name for name in ways if name not in once])):
        with limited(1):
            start = time.perf_counter()
            coefficients, counts[name] = ways[name]()
            times[name] = min(times[name], time.perf_counter() - start)
        _require_solved(name, X, y, coefficients)
    parameters = f"float64 d={PCG_D} n={n} alpha={PCG_ALPHA} to {PCG_TOL:g}"
    note = f"{counts['mercer']} iterations, {counts['no preconditioner']} without"
    what = "conjugate gradients with RPCholesky"
    yield speedup(what, parameters, times, "Cholesky", at_least(PCG), note=note)
    yield speedup(what, parameters, times, "no preconditioner", note=note)
    yield _iterations_memory(n)


def _iterated(
    kernel: mc.Kernel, X: Array, y: Array, preconditioner: str | None
) -> tuple[Array, int]:
    """Coefficients by iterations, and their number."""
    solver = mc.solvers.ConjugateGradient(
        preconditioner, tol=PCG_TOL, max_iter=3000, random_state=0
    )
    model = mc.KernelRidge(kernel, PCG_ALPHA, False, solver=solver).fit(X, y)
    return model.dual_coef_, model.n_iter_


def _require_solved(name: str, X: Array, y: Array, coefficients: Array) -> None:
    """A time counts only if what was asked for is there: some of the equations, by the peer."""
    rows = np.random.default_rng(1).permutation(len(X))[:PCG_CHECKED]
    K = rbf_kernel(X[rows], X, gamma=1 / (2 * PCG_D))
    residuals = y[rows] - K @ coefficients - PCG_ALPHA * coefficients[rows]
    # Residuals of a sample scatter about those of all rows.
    if not np.linalg.norm(residuals) <= 2 * PCG_TOL * np.linalg.norm(y[rows]):
        size = np.linalg.norm(residuals) / np.linalg.norm(y[rows])
        raise RuntimeError(f"{name}: a residual of {size:.2g}, and {PCG_TOL:g} was asked for")


def iterations(n: int) -> Any:
    """A fit by preconditioned iterations."""
    X, y = _system(n)
    solver = mc.solvers.ConjugateGradient(tol=PCG_TOL, max_iter=3000, random_state=0)
    model = mc.KernelRidge(mc.RBF(math.sqrt(PCG_D)), PCG_ALPHA, False, solver=solver)
    return lambda: model.fit(X, y)


def _system(n: int) -> tuple[Array, Array]:
    X = np.random.default_rng(0).normal(size=(n, PCG_D))
    return X, np.sin(X).sum(axis=1)


def _iterations_memory(n: int) -> Outcome:
    mine, matrix = peak_bytes(iterations, n=n), 8 * n * n
    rank = mc.solvers.ConjugateGradient().rank_for(n)
    return Outcome(
        "conjugate gradients with RPCholesky, peak memory",
        f"float64 d={PCG_D} n={n}, rank {rank}",
        mine / 1e6,
        "the matrix",
        matrix / 1e6,
        mine / matrix,
        at_most(PCG_FACTORS * rank / n),
        unit="MB",
    )


def _dense(kernel: mc.Kernel, X: Array, y: Array) -> tuple[Array, int]:
    """The same system by LAPACK, in the memory of the matrix, without iterations."""
    K = kernel(X)
    K[np.diag_indices(len(K))] += PCG_ALPHA
    factor, _ = lapack.dpotrf(K.T, lower=True, overwrite_a=True, clean=False)
    return lapack.dpotrs(factor, y, lower=True)[0], 0


# A million rows -----------------------------------------------------------------------------------


def million(n: int) -> Work:
    """Fit, and predict new rows; the data are there before."""
    solver = mc.solvers.NystromSolver(min(n, MILLION_M), random_state=0)
    model = mc.KernelRidge(mc.RBF(math.sqrt(MILLION_D)), ALPHA, solver=solver)
    return _fit_and_predict(model, n)


def peer_million(n: int) -> Work:
    """The peer's."""
    features = Nystroem(gamma=1 / (2 * MILLION_D), n_components=min(n, MILLION_M), random_state=0)
    return _fit_and_predict(make_pipeline(features, Ridge(ALPHA)), n)


def _fit_and_predict(model: Any, n: int) -> Work:
    X, y = data(n, MILLION_D, "float32")
    new, truth = data(max(1, n // 10), MILLION_D, "float32", seed=1)

    def work() -> dict[str, Any]:
        residuals = model.fit(X, y).predict(new) - truth
        return {"error": math.sqrt(np.mean(np.square(residuals, dtype=np.float64)))}

    return work


def _million(settings: Settings) -> Iterator[Outcome]:
    n = settings.size(MILLION)
    mine = child.run(million, threads=2, n=n)
    rows, peer_name = n, "Nystroem + Ridge"
    if memory.available() < PEER_COPIES * n * MILLION_M * 4:
        rows, peer_name = n // 4, "same, n / 4"
    peer = child.run(peer_million, threads=2, n=rows)
    for done in (mine, peer):
        if done.failure:
            raise RuntimeError(f"a million rows: {done.failure}")
    errors = f"test RMSE {mine.values['error']:.4f}, Nystroem + Ridge {peer.values['error']:.4f}"
    parameters = f"float32 d={MILLION_D} n={n}, {MILLION_M} landmarks, predict {n // 10}"
    note = f"{errors} (n={rows}, {peer.peak / 1e6:.0f} MB)"
    yield Outcome(
        "KernelRidge, fit and predict, speed per row",
        parameters,
        mine.seconds,
        peer_name,
        peer.seconds,
        (peer.seconds / rows) / (mine.seconds / n),
        threads=2,
        note=note,
    )
    yield Outcome(
        "KernelRidge, fit and predict, peak memory above the data",
        parameters,
        mine.peak / 1e6,
        "",
        None,
        mine.peak / 1e6,
        at_most(MILLION_BYTES / 1e6),
        unit="MB",
        figure_unit="MB",
        threads=2,
    )
