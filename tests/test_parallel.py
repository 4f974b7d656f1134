"""The number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import mercer as mc
from mercer.exceptions import ParameterError


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
