"""Rows, targets and weights of ridge regressions, for tests of all solvers."""

from __future__ import annotations

from typing import Any

import numpy as np

import mercer as mc

RNG = np.random.default_rng(0)
N = 160
TRAIN = RNG.normal(size=(N, 3))
TARGET = np.sin(TRAIN).sum(axis=1) + 0.1 * RNG.normal(size=N) + 20
BOTH = np.column_stack([TARGET, 100 * TRAIN[:, 1]])
W = RNG.uniform(0.1, 3.0, size=N)
W[:7] = 0
Z = RNG.normal(size=(11, 3))
MATERN = mc.Matern(1.5)


def name(solver: Any) -> str:
    return type(solver).__name__
