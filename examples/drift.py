"""
Which columns drifted
=====================

A detector compares new rows with a reference. The Shapley value of a column is its share in the
squared discrepancy, so that all bars add up to it. The value is negative for a column that hides
the difference.
"""

# %%
# In the new rows, the third column has a larger mean and the fifth a larger variance.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
reference, new = rng.normal(size=(2, 200, 6))
new[:, 2] += 1.0
new[:, 4] *= 2.0
drift = mc.inference.DriftDetector(reference, mc.RBF("columns"), random_state=0).predict(new)
mc.plot.DriftDisplay.from_drift(drift)
plt.show()
