"""
The null distribution of a test
===============================

A test compares its statistic with values of permuted rows, for which the hypothesis holds. The
dashed line is the value beyond which the hypothesis is rejected at the level of the test.
"""

# %%
# The columns have no correlation, but they depend on each other. No permutation has so large a
# statistic.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, size=(80, 1))
y = x**2 + 0.2 * rng.normal(size=(80, 1))
result = mc.inference.hsic_test(x, y, mc.RBF("scale"), mc.RBF("scale"), random_state=0)
mc.plot.NullDisplay.from_result(result)
plt.show()
