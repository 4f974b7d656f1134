"""
What an alignment finds similar
===============================

Two kinds of simulated heartbeats, with peaks at random times. A kernel that compares values at
equal times mixes them up. The global alignment kernel compares them at matching times.
"""

# %%
# Both matrices are sorted by kind. The alignment shows two blocks.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
t = np.arange(80)
kinds = np.repeat(["normal", "inverted"], 20)
beats = []
for kind in kinds:
    start = rng.integers(10, 40)
    height = 0.4 if kind == "normal" else -0.3
    wave = np.exp(-0.5 * ((t - start) / 2) ** 2)
    wave += height * np.exp(-0.5 * ((t - start - 22) / 5) ** 2)
    beats.append(wave + 0.05 * rng.standard_normal(80))
X = np.array(beats)
kernels = {"values at equal times": mc.RBF("median"), "global alignment": mc.GlobalAlignment()}
_, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for ax, (title, kernel) in zip(axes, kernels.items(), strict=True):
    mc.plot.GramDisplay.from_kernel(kernel, X, kinds, ax=ax)
    ax.set_title(title)
plt.show()
