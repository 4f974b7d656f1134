"""
Where two samples differ
========================

The witness function of two samples is positive where the first one has more rows, and negative
where it has fewer. Its norm is the maximum mean discrepancy. The ticks are the rows of the samples.
"""

# %%
# Both samples have mean 0 and variance 1. The second one has two groups.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
x = rng.normal(size=200)
y = 0.9 * rng.choice([-1.0, 1.0], size=200) + np.sqrt(0.19) * rng.normal(size=200)
mc.plot.WitnessDisplay.from_samples(x, y, mc.RBF(0.5))
plt.show()
