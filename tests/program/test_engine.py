"""The engine against the NumPy executor and naive sums; its short way for small plain arrays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.kernels.base import pairs_of
from mercer.program import engine, reference
from mercer.program.gradient import input_gradient, parameter_gradient

RNG = np.random.default_rng(13)
KERNELS = [
    mc.RBF(),
    mc.Laplacian(),
    mc.Matern(nu=1.3),
    mc.Linear() ** 2 + 0.5 * mc.RBF() * mc.Periodic(),
    mc.Monomials(2).normalized() + mc.White(),
    mc.Anova(3),
    mc.ArcCosine(1),
]
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}


def bound(kernel: mc.Kernel, X: Any, Z: Any) -> Any:
    return np.sqrt(np.outer(kernel.diag(X), kernel.diag(Z)).astype(float))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "m", "d"),
    [
        (1, 1, 1),
        (1, 7, 2),
        (5, 3, 1),
        (17, 16, 3),
        (33, 65, 8),
        (130, 127, 5),
        (257, 300, 17),
        (64, 513, 33),
    ],
)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_shapes_that_do_not_fill_tiles(
    kernel: mc.Kernel, n: int, m: int, d: int, dtype: Any
) -> None:
    X = (RNG.normal(size=(n, d)) / np.sqrt(d)).astype(dtype)
    Z = (RNG.normal(size=(m, d)) / np.sqrt(d)).astype(dtype)
    for args in ((X, Z), (X,)):
        pairs = pairs_of(kernel, *args)
        wanted = np.asarray(reference.evaluate(kernel.expression, pairs), float)
        size = bound(kernel, X, args[-1])
        tolerance = TOLERANCE[np.dtype(dtype)]
        K = engine.gram(kernel.expression, pairs)
        assert K.dtype == dtype
        assert (np.abs(K - wanted) <= tolerance * size).all()
        V = RNG.normal(size=(wanted.shape[1], 3))
        product = engine.product(kernel.expression, pairs, V)
        assert (np.abs(product - wanted @ V) <= 2 * tolerance * (size @ np.abs(V))).all()


@pytest.mark.parametrize("r", [1, 2, 3, 4, 5, 8, 9, 16, 17, 40])
def test_any_number_of_vectors(r: int) -> None:
    X, Z = RNG.normal(size=(150, 4)), RNG.normal(size=(90, 4))
    V = RNG.normal(size=(90, r))
    K = mc.RBF()(X, Z)
    assert_allclose(mc.RBF().gram(X, Z) @ V, K @ V, rtol=1e-12, atol=1e-12)
    assert_allclose(mc.RBF().gram(X, Z).normal_matmat(V), K.T @ (K @ V), rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_equal_the_reference(kernel: mc.Kernel) -> None:
    X, Z = RNG.normal(size=(70, 5)) / 2, RNG.normal(size=(45, 5)) / 2
    U, V = RNG.normal(size=(70, 2)), RNG.normal(size=(45, 2))
    pairs = pairs_of(kernel, X, Z)
    for weights in (U @ V.T, (U, V)):
        args = kernel.expression, pairs
        found = parameter_gradient((kernel.expression,), pairs, weights, engine.contract)
        wanted = parameter_gradient((kernel.expression,), pairs, U @ V.T, reference.contract)
        assert found.keys() == wanted.keys()
        for path in wanted:
            assert_allclose(found[path], wanted[path], rtol=1e-9, atol=1e-9)
        found = input_gradient(*args, weights, engine.contract)
        assert_allclose(
            found, input_gradient(*args, U @ V.T, reference.contract), rtol=1e-9, atol=1e-9
        )


def test_a_symmetric_matrix_is_symmetric_to_the_last_bit() -> None:
    X = RNG.normal(size=(333, 6))
    for kernel in KERNELS:
        K = kernel(X)
        assert_array_equal(K, K.T)


def test_single_precision_accumulates_in_double() -> None:
    """Within a tile sums are float32; across tiles they are not, so that n does not matter."""
    X = np.zeros((200_000, 1), np.float32)
    total = mc.RBF().gram(X[:3], X) @ np.full(200_000, 0.1, np.float32)
    assert_allclose(total, 200_000 * float(np.float32(0.1)), rtol=2e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_do_not_depend_on_threads_or_on_the_run(dtype: Any) -> None:
    X, V = RNG.normal(size=(1500, 7)).astype(dtype), RNG.normal(size=(1500, 3)).astype(dtype)
    kernel = 0.5 * mc.RBF(np.ones(7)) * mc.Periodic() + mc.Matern(nu=1.3)

    def results() -> list[Any]:
        gram = kernel.gram(X)
        return [
            gram @ V,
            gram.normal_matmat(V),
            gram.gradient((V, V)),
            gram.input_gradient((V, V)),
            gram.frobenius(),
            gram[:700, :],
        ]

    with mc.threads(1):
        wanted = results()
    for count in (1, 2, 3):
        with mc.threads(count):
            for a, b in zip(results(), wanted, strict=True):
                assert_array_equal(a, b)


# Several threads ----------------------------------------------------------------------------------


def test_several_python_threads_share_the_engine() -> None:
    from concurrent.futures import ThreadPoolExecutor

    X = RNG.normal(size=(400, 3))
    kernels = [mc.RBF(length) for length in np.linspace(0.5, 2.0, 8)]
    wanted = [k(X) for k in kernels]
    with ThreadPoolExecutor(4) as pool:
        for K, W in zip(pool.map(lambda k: k(X), kernels), wanted, strict=True):
            assert_array_equal(K, W)


def test_calls_of_several_threads_each_are_helped_side_by_side() -> None:
    from concurrent.futures import ThreadPoolExecutor

    X, v = RNG.normal(size=(1500, 5)), RNG.normal(size=1500)
    kernels = [mc.RBF(length) for length in np.linspace(0.5, 2.0, 12)]
    with mc.threads(1):
        wanted = [k.gram(X) @ v for k in kernels]

    def helped(kernel: mc.Kernel) -> Any:
        with mc.threads(3):
            return kernel.gram(X) @ v

    with ThreadPoolExecutor(4) as pool:
        for found, value in zip(pool.map(helped, kernels), wanted, strict=True):
            assert_array_equal(found, value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_helpers_of_its_own() -> None:
    program = """
import os, sys
import numpy as np
import mercer as mc

X = np.random.default_rng(0).normal(size=(1500, 5))
gram, v = mc.RBF(1.0).gram(X), np.ones(1500)
with mc.threads(2):
    wanted = gram @ v
    child = os.fork()
    same = np.array_equal(gram @ v, wanted)
    if child == 0:
        os._exit(0 if same else 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + (not same))
"""
    # Threads of BLAS exist before those of the engine, so that the difference is the engine's.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system lists no threads")
def test_helpers_leave_signals_to_the_program() -> None:
    program = """
import os
import numpy as np
import mercer as mc

gram, v = mc.RBF(1.0).gram(np.ones((2000, 5))), np.ones(2000)
with mc.threads(1):
    gram @ v  # libraries that are loaded late may start threads
others = set(os.listdir("/proc/self/task"))
with mc.threads(2):
    gram @ v
helpers = set(os.listdir("/proc/self/task")) - others
assert helpers
for helper in helpers:
    with open(f"/proc/self/task/{helper}/status") as lines:
        blocked = next(line for line in lines if line.startswith("SigBlk"))
    assert int(blocked.split()[1], 16) & (1 << 9)  # the tenth signal, SIGUSR1
"""
    # Threads of BLAS exist before those of the engine, so that the difference is the engine's.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("work", ["gram @ v", "kernel(X)"])
def test_a_daemon_thread_inside_the_engine_does_not_abort_the_exit(work: str) -> None:
    script = f"""
import threading, time
import numpy as np
import mercer as mc

X = np.random.default_rng(0).normal(size=(6_000, 20))
kernel, v, began = mc.RBF(), np.ones(6_000), threading.Event()
gram = kernel.gram(X)

def compute():
    while True:
        began.set()
        {work}

for _ in range(2):
    threading.Thread(target=compute, daemon=True).start()
began.wait()
time.sleep(0.2)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("Z", [False, True], ids=["one side", "two sides"])
def test_few_rows_of_many_columns_leave_the_interpreter_to_others(Z: bool) -> None:
    X = RNG.normal(size=(60, 40_000))
    kernel = mc.RBF(300.0)
    kernel(X[:2])  # the first call of a kind binds the program
    started, ran = threading.Event(), threading.Event()

    def other() -> None:
        started.wait()
        ran.set()

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=other)
    thread.start()
    # From here on the other thread runs only where this one lets it.
    sys.setswitchinterval(1000.0)
    try:
        started.set()
        for _ in range(20):  # a busy machine may miss a chance, but not all of them
            kernel(X, X if Z else None)
            if ran.is_set():
                break
        seen = ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert seen


def by_rows(function: Any) -> Any:
    """The matrix of a function of one row and all others, in float64."""
    return lambda A, B: np.array([function(a, B) for a in A.astype(float)])


MANY_COLUMNS = [
    (mc.Linear(), by_rows(lambda a, B: (a * B).sum(axis=1))),
    (mc.RBF(60.0), by_rows(lambda a, B: np.exp(-((a - B) ** 2).sum(axis=1) / 7200))),
    (mc.Matern(60.0, nu=0.5), by_rows(lambda a, B: np.exp(-np.linalg.norm(a - B, axis=1) / 60))),
    (mc.Laplacian(3e3), by_rows(lambda a, B: np.exp(-np.abs(a - B).sum(axis=1) / 3e3))),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("kernel", "naive"), MANY_COLUMNS, ids=[repr(k) for k, _ in MANY_COLUMNS])
def test_many_columns(kernel: mc.Kernel, naive: Any, dtype: Any) -> None:
    X, Z = (RNG.normal(size=(n, 3_001)).astype(dtype) for n in (70, 301))
    v = RNG.normal(size=(301, 2)).astype(dtype)
    exact = naive(X, Z)
    # The sum of the absolute terms of an inner product; the other values are at most 1.
    terms = np.abs(X).astype(float) @ np.abs(Z.T) if isinstance(kernel, mc.Linear) else 1.0
    error = 40 * np.finfo(dtype).eps * np.broadcast_to(terms, exact.shape)
    assert np.all(np.abs(kernel(X, Z) - exact) <= error)
    assert np.all(np.abs(kernel.gram(X, Z) @ v - exact @ v) <= 2 * error @ np.abs(v))
    K = kernel(Z)
    assert_array_equal(K, K.T)


DIRECT = [
    mc.RBF(0.7),
    mc.RBF([0.5, 1.0, 2.0]),
    mc.Matern(nu=1.3),
    mc.Laplacian(2.0),
    mc.Linear() ** 2 + 0.5 * mc.RBF() * mc.RationalQuadratic(),
    mc.Anova(degree=2),
    mc.Periodic(period=2.0),
    mc.RBF().normalized(),
    mc.RBF() + 0.3 * mc.White(),
    mc.RBF().on(0) * mc.Linear(),
    mc.SpectralMixture([1.0, 0.5], [[0.5, 1.0, 2.0]] * 2, [[1.0, 2.0, 3.0]] * 2),
    mc.ArcCosine(order=0),
    mc.Categorical(1.0),
]


def by_the_long_way(kernel: mc.Kernel, X: Any, Z: Any = None) -> Any:
    return engine.gram(kernel.expression, pairs_of(kernel, X, Z))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", DIRECT, ids=repr)
def test_both_ways_agree_to_the_last_bit(kernel: mc.Kernel, dtype: Any) -> None:
    X = RNG.normal(size=(37, 3)).astype(dtype)
    Z = RNG.normal(size=(5, 3)).astype(dtype)
    for rows, cols in ((X, None), (X, Z), (X[::2], Z), (np.asfortranarray(X), Z), (X[:1], X[:1])):
        kernel(rows, cols)  # the first call of a kind binds the program
        got, expected = kernel(rows, cols), by_the_long_way(kernel, rows, cols)
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype


def test_errors_are_those_of_the_long_way() -> None:
    kernel = mc.RBF()
    X = RNG.normal(size=(4, 2))
    kernel(X)
    bad = X.copy()
    bad[2, 1] = np.nan
    with pytest.raises(mc.exceptions.DataError, match="row 2"):
        kernel(bad)
    with pytest.raises(mc.exceptions.DataError, match="columns"):
        kernel(X, RNG.normal(size=(4, 3)))
    small = mc.RBF(1e-200)
    small(X * 1e-200)
    with pytest.raises(mc.exceptions.DataError, match="exceed"):
        small(X * 1e200)


def test_changed_data_and_other_types_are_seen() -> None:
    kernel, X = mc.RBF(), RNG.normal(size=(6, 2))
    before = kernel(X).copy()
    X *= 2
    assert not np.allclose(kernel(X), before)
    assert kernel(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(kernel(X.astype(">f8")), kernel(X))
    np.testing.assert_allclose(kernel(X, X.astype(np.float32)), kernel(X), atol=1e-6)


PRODUCTS = textwrap.dedent(
    """
    import signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import mercer as mc

    X = np.random.default_rng(0).normal(size=(200_000, 20))
    gram, small = mc.RBF().gram(X), mc.RBF().gram(X[:300])
    v = np.ones(300)
    wanted = mc.RBF()(X[:300]) @ v
    print("ready", flush=True)
    try:
        # Far longer than the test is willing to wait.
        for _ in range(1000):
            gram @ np.ones(200_000)
    except KeyboardInterrupt:
        assert np.allclose(small @ v, wanted, rtol=1e-12)
        print("interrupted", flush=True)
    """
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupt_stops_a_long_product_and_the_next_one_is_right(threads: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PRODUCTS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MERCER_NUM_THREADS": threads},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready", process.communicate()[1]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.7)  # it is now inside the engine
        process.send_signal(signal.SIGINT)
        # The engine promises a second, a loaded machine gets more; all products would take hours.
        out, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out.strip() == "interrupted", errors
    assert process.returncode == 0
