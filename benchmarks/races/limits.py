"""What fits in six gigabytes of address space, and what does not.

Every case is a process of its own under ``ulimit -v 6000000``. mercer has to finish, and plain
NumPy checks what it found; scikit-learn's counterpart is run under the same limit, and has to end
in a `MemoryError`, or else the case shows nothing.

    python -m benchmarks.races.limits [--only ridge,predict]
"""

from __future__ import annotations

import argparse
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor as PeerProcess
from sklearn.gaussian_process import kernels
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as PeerRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import mercer as mc
from benchmarks import child
from benchmarks.harness import Outcome, Settings, at_most

Array = NDArray[Any]
Work = Callable[[], dict[str, Any]]

LIMIT = 6_000_000 * 1024
D, ALPHA, NOISE = 10, 0.1, 0.1
LENGTH_SCALE = math.sqrt(D)
FIT_N = 30_000
PREDICT_N, PREDICT_NEW = 5_000, 200_000
LANDMARK_N, LANDMARKS = 500_000, 1_000
#: Rows on which NumPy checks.
CHECKED = 200
#: Largest relative error that a correct answer may have.
CORRECT = 1e-4


def data(n: int, seed: int = 0) -> tuple[Array, Array]:
    """A smooth function of all columns, and noise, in float64."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.sin(X).sum(axis=1) + NOISE * rng.normal(size=n)


def values(X: Array, Z: Array, length_scale: float = LENGTH_SCALE) -> Array:
    """The RBF kernel, by NumPy."""
    squares = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * X @ Z.T
    return np.exp(-squares / (2 * length_scale**2))


# The whole kernel ---------------------------------------------------------------------------------


def ridge(n: int) -> Work:
    """Kernel ridge on all pairs; the check is of rows of (K + alpha I) a + b = y."""
    X, y = data(n)

    def work() -> dict[str, Any]:
        model = mc.KernelRidge(mc.RBF(LENGTH_SCALE), ALPHA).fit(X, y)
        rows = np.arange(0, n, max(1, n // CHECKED))
        a = model.dual_coef_
        left = values(X[rows], X) @ a + ALPHA * a[rows] + model.intercept_
        return {"solver": repr(model.solver_), "error": _relative(left, y[rows])}

    return work


def peer_ridge(n: int) -> Work:
    """The peer's."""
    X, y = data(n)
    model = PeerRidge(alpha=ALPHA, kernel="rbf", gamma=1 / (2 * D))
    return _nothing(lambda: model.fit(X, y))


def process(n: int) -> Work:
    """A Gaussian process that learns; the check is of rows of (K + noise I) a = y - b."""
    X, y = data(n)

    def work() -> dict[str, Any]:
        kernel = 1.0 * mc.RBF(LENGTH_SCALE)
        model = mc.GaussianProcessRegressor(kernel, random_state=0, solver="auto").fit(X, y)
        rows = np.arange(0, n, max(1, n // CHECKED))
        found, a = model.kernel_.get_params(), model.dual_coef_
        K = found["scale"] * values(X[rows], X, found["length_scale"])
        noise = model.noise_ / model.y_scale_**2
        left = K @ a + noise * a[rows] + model.intercept_
        return {"solver": repr(model.solver_), "error": _relative(left, y[rows])}

    return work


def peer_process(n: int) -> Work:
    """The peer's."""
    X, y = data(n)
    kernel = kernels.ConstantKernel(1.0) * kernels.RBF(LENGTH_SCALE) + kernels.WhiteKernel(NOISE)
    return _nothing(lambda: PeerProcess(kernel, normalize_y=True).fit(X, y))


def has_solvers() -> bool:
    """Whether Gaussian processes can be fitted to so many rows."""
    return "solver" in inspect.signature(mc.GaussianProcessRegressor).parameters


# Prediction ---------------------------------------------------------------------------------------


def predict(n: int, new: int) -> Work:
    """Prediction of many rows; the check is of some of them."""
    (X, y), (Z, _) = data(n), data(new, seed=1)
    model = mc.KernelRidge(mc.RBF(LENGTH_SCALE), ALPHA).fit(X, y)

    def work() -> dict[str, Any]:
        found = model.predict(Z)
        rows = np.arange(0, new, max(1, new // CHECKED))
        wanted = values(Z[rows], X) @ model.dual_coef_ + model.intercept_
        return {"solver": "predict", "error": _relative(found[rows], wanted)}

    return work


def peer_predict(n: int, new: int) -> Work:
    """The peer's."""
    (X, y), (Z, _) = data(n), data(new, seed=1)
    model = PeerRidge(alpha=ALPHA, kernel="rbf", gamma=1 / (2 * D)).fit(X, y)
    return _nothing(lambda: model.predict(Z))


# Landmarks ----------------------------------------------------------------------------------------


def landmarks(n: int, m: int) -> Work:
    """A fit on landmarks; the check is of its normal equations, on all rows."""
    X, y = data(n)
    solver = mc.solvers.NystromSolver(m, random_state=0)

    def work() -> dict[str, Any]:
        model = mc.KernelRidge(mc.RBF(LENGTH_SCALE), ALPHA, solver=solver).fit(X, y)
        Z, c = np.asarray(model.points_.data), model.dual_coef_
        right, left = np.zeros(m), ALPHA * values(Z, Z) @ c
        for start in range(0, n, 10_000):
            rows = slice(start, start + 10_000)
            C = values(X[rows], Z)
            left += C.T @ (C @ c)
            right += C.T @ (y[rows] - model.intercept_)
        return {"solver": repr(model.solver_), "error": _relative(left, right)}

    return work


def peer_landmarks(n: int, m: int) -> Work:
    """The peer's."""
    X, y = data(n)
    features = Nystroem(gamma=1 / (2 * D), n_components=m, random_state=0)
    return _nothing(lambda: make_pipeline(features, Ridge(ALPHA)).fit(X, y))


# The cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    """What is run, and scikit-learn's counterpart."""

    what: str
    mine: Callable[..., Work]
    peer: Callable[..., Work]
    peer_name: str
    sizes: dict[str, int]


CASES = {
    "ridge": _Case("KernelRidge, fit", ridge, peer_ridge, "KernelRidge", {"n": FIT_N}),
    "predict": _Case(
        "KernelRidge, predict",
        predict,
        peer_predict,
        "KernelRidge",
        {"n": PREDICT_N, "new": PREDICT_NEW},
    ),
    "process": _Case(
        "GaussianProcessRegressor, fit", process, peer_process, "GaussianProcess", {"n": FIT_N}
    ),
    "landmarks": _Case(
        "KernelRidge(solver=NystromSolver), fit",
        landmarks,
        peer_landmarks,
        "Nystroem + Ridge",
        {"n": LANDMARK_N, "m": LANDMARKS},
    ),
}


def races(settings: Settings, names: Sequence[str] = tuple(CASES)) -> Iterator[Outcome]:
    """All cases: the error of the answer, with the peak of address space and the time."""
    for name in names:
        if name == "process" and not has_solvers():
            print("GaussianProcessRegressor has no solvers: left out")
            continue
        yield _outcome(CASES[name], settings)


def _outcome(case: _Case, settings: Settings) -> Outcome:
    sizes = {
        name: size if name == "m" else settings.size(size) for name, size in case.sizes.items()
    }
    mine = child.run(case.mine, limit=LIMIT, **sizes)
    peer = child.run(case.peer, limit=LIMIT, **sizes)
    error = math.inf if mine.failure else mine.values["error"]
    end = peer.failure or "finished"
    if not (settings.quick or end == child.NO_MEMORY):
        raise RuntimeError(
            f"{case.what}: {case.peer_name} of scikit-learn was to end in a {child.NO_MEMORY} "
            f"within 6 GB, and ended otherwise: {end}"
        )
    note = (
        mine.failure
        or f"{mine.seconds:.1f} s, {mine.cpu:.1f} s of a core, peak {mine.address_space / 1e9:.2f} "
        f"GB of addresses, {mine.resident / 1e9:.2f} GB resident, {mine.values['solver']}"
    )
    return Outcome(
        f"{case.what} within 6 GB, error",
        "float64 d=10 " + " ".join(f"{name}={size}" for name, size in sizes.items()),
        error,
        case.peer_name,
        None,
        error,
        at_most(CORRECT),
        unit="",
        figure_unit="",
        note=f"{note}; {case.peer_name}: {end}",
    )


def _nothing(run: Callable[[], Any]) -> Work:
    """The call without its result."""

    def work() -> dict[str, Any]:
        run()
        return {}

    return work


def _relative(found: Array, wanted: Array) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what became of each case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.races.limits")
    parser.add_argument("--only", default=",".join(CASES), help="a choice of the cases")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    options = parser.parse_args(arguments)
    for outcome in races(Settings(options.quick), options.only.split(",")):
        met = "met" if outcome.met else "NOT MET"
        print(f"{outcome.race} {outcome.parameters}: {outcome.figure:.1e} {met}\n  {outcome.note}")


if __name__ == "__main__":
    main()
