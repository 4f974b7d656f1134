"""The number of threads, and properties without locks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.parallel import cached_property


def test_threads_nest_and_end() -> None:
    before = mc.thread_count()
    with mc.threads(3):
        assert mc.thread_count() == 3
        with mc.threads(1):
            assert mc.thread_count() == 1
        assert mc.thread_count() == 3
    assert mc.thread_count() == before


def test_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERCER_NUM_THREADS", "5")
    assert mc.thread_count() == 5
    with mc.threads(2):
        assert mc.thread_count() == 2
    monkeypatch.setenv("MERCER_NUM_THREADS", "many")
    with pytest.raises(ParameterError, match=r"MERCER_NUM_THREADS: 'many' is not a whole number"):
        mc.RBF()(np.ones((2, 1)))
    monkeypatch.delenv("MERCER_NUM_THREADS")
    assert mc.thread_count() >= 1


def test_the_environment_variable_of_a_new_process() -> None:
    program = "import mercer as mc; print(mc.thread_count())"
    environment = {**os.environ, "MERCER_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "3"


def test_limits_of_a_whole_process_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MERCER_NUM_THREADS", raising=False)
    for name in ("OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
        with monkeypatch.context() as environment:
            environment.setenv(name, "1")
            assert mc.thread_count() == 1
            environment.setenv(name, "not a number")
            assert mc.thread_count() >= 1


def test_threads_of_a_pool_follow_the_block_that_they_work_for() -> None:
    with mc.threads(1), ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: mc.thread_count(), range(4))) == [1] * 4
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(mc.thread_count).result() == mc.thread_count()


def test_a_fit_uses_one_thread_of_blas_and_gives_the_others_back() -> None:
    def counts() -> set[int]:
        libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
        return {one["num_threads"] for one in libraries}

    inside: list[set[int]] = []

    class Watched(mc.PairKernel):
        """Counts the threads of BLAS while it is evaluated."""

        psd = True

        def pairs(self, A: Any, B: Any) -> Any:
            inside.append(counts())
            return np.array([[float(a == b) for b in B] for a in A])

    with threadpool_limits(2):
        mc.KernelRidge(Watched(), alpha=1.0).fit(["a", "b", "c"], [1.0, 2.0, 3.0])
        assert counts() == {2}
    assert inside
    assert all(found == {1} for found in inside)
    with threadpool_limits(1), mc.threads(2):
        assert counts() == {1}  # lowered, never raised


@pytest.mark.parametrize("bad", [0, -1, 1.5, "two", None])
def test_bad_numbers_of_threads(bad: Any) -> None:
    with (
        pytest.raises(ParameterError, match=r"threads\(n\): .* whole number of threads from 1 to"),
        mc.threads(bad),
    ):
        pass


class Squares:
    calls = 0

    def __init__(self, side: float) -> None:
        self.side = side

    @cached_property
    def area(self) -> float:
        """The area."""
        Squares.calls += 1
        return self.side**2


def test_a_property_is_computed_once_for_each_object() -> None:
    one, two = Squares(3.0), Squares(4.0)
    before = Squares.calls
    assert (one.area, one.area, two.area) == (9.0, 9.0, 16.0)
    assert Squares.calls == before + 2
    assert isinstance(Squares.area, cached_property)
    assert Squares.area.__doc__ == "The area."


def run(script: str, seconds: float) -> str:
    """Run a script in a process of its own; a deadlock ends in a timeout."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MERCER_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


BUILDERS = """
    import sys, threading, time
    import numpy as np
    import mercer as mc

    sys.setswitchinterval(1e-5)
    X = np.random.default_rng(0).normal(size=(12, 3))
    stop = time.monotonic() + 2.0

    def until_the_end(work):
        def loop():
            while time.monotonic() < stop:
                work()
        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        return thread

    workers = [
        until_the_end(lambda: (mc.RBF() + mc.Linear()).get_params()),
        until_the_end(lambda: (mc.RBF() + mc.Linear()).replace(rbf__length_scale=2.0)(X)),
        until_the_end(lambda: (mc.RBF() * mc.Linear()).normalized().gram(X) @ X),
    ]
"""


def test_threads_that_build_kernels_do_not_wait_for_each_other() -> None:
    script = (
        BUILDERS
        + """
    for worker in workers:
        worker.join(30)
    print([worker.is_alive() for worker in workers])
    """
    )
    assert run(script, 90) == "[False, False, False]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_process_forked_while_threads_build_kernels_builds_kernels() -> None:
    script = (
        BUILDERS
        + """
    import os, signal, warnings
    warnings.simplefilter("ignore")
    codes = []
    for _ in range(10):
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            kernel = (mc.RBF() + mc.Linear()).replace(rbf__length_scale=3.0).normalized()
            os._exit(0 if kernel(X).shape == (12, 12) and kernel.get_params() else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    for worker in workers:
        worker.join(30)
    print(codes)
    """
    )
    assert run(script, 240) == f"{[0] * 10}\n"
