"""Ctrl-C stops a long product and leaves the process usable: tested with a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent(
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
        [sys.executable, "-c", PROGRAM],
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
