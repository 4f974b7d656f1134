"""Classes of one row to nine, in no order."""

from __future__ import annotations

import numpy as np

import mercer as mc

RNG = np.random.default_rng(11)
COUNTS = (3, 1, 9, 4, 1, 6, 2)
CODES = RNG.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
X = RNG.normal(size=(len(CODES), 3)) + np.eye(3)[CODES % 3]
WEIGHTS = RNG.uniform(0.5, 2.0, size=len(CODES))
RBF = mc.RBF(length_scale=1.5)
