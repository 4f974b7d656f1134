"""Rows and words, and a kernel of the rows, for tests of features over landmarks."""

from __future__ import annotations

import numpy as np

import mercer as mc

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Z = RNG.normal(size=(40, 3))
KERNEL = mc.RBF(2.0)
WORDS = ["".join(RNG.choice(list("abc"), size=7)) for _ in range(60)]
