"""The number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize("bad", [0, -1, 1.5, "two", None])
def test_bad_numbers_of_threads(bad: Any) -> None:
    with (
        pytest.raises(ParameterError, match=r"threads\(n\): .* whole number of threads from 1 to"),
        mc.threads(bad),
    ):
        pass
