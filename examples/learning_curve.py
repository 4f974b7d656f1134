"""
Learning row by row
===================

Kernel least mean squares predicts every row before it learns from it. Each error is therefore an
error on unseen data.
"""

# %%
# The error falls to about 0.1, the standard deviation of the noise.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(2000, 1))
y = np.sin(2 * X).ravel() + 0.1 * rng.normal(size=len(X))

model = mc.KernelLMS(mc.RBF(length_scale=0.5), step_size=0.3).fit(X, y)
mc.plot.LearningCurveDisplay.from_estimator(model, floor=0.1)
plt.show()
