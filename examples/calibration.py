"""
Do the stated probabilities hold?
=================================

A model that states probabilities can be judged by rows it has not seen. If it is calibrated, 90%
of targets are in the intervals of 90%.
"""

# %%
# The noise of these targets grows with x. A Gaussian process with constant noise has intervals that
# hold too many targets: they are too wide where there is little noise. Quantiles follow the noise.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import mercer as mc

rng = np.random.default_rng(0)
X = rng.uniform(0, 6, size=(600, 1))
y = np.sin(X).ravel() + 0.1 * (1 + X.ravel()) * rng.normal(size=600)

_, axes = plt.subplots(1, 3, figsize=(14, 4.8), layout="constrained")
process = mc.GaussianProcessRegressor(1.0 * mc.RBF()).fit(X[:200], y[:200])
mc.plot.CalibrationDisplay.from_estimator(process, X[200:], y[200:], ax=axes[0])

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
quantiles = mc.KernelQuantileRegressor(mc.RBF(), quantile=levels, alpha=0.1)
quantiles.fit(X[:200], y[:200])
mc.plot.CalibrationDisplay.from_estimator(quantiles, X[200:], y[200:], ax=axes[1])

data, labels = make_moons(1000, noise=0.3, random_state=0)
classifier = mc.KernelLogisticRegression(mc.RBF(), alpha=0.1).fit(data[:200], labels[:200])
mc.plot.CalibrationDisplay.from_estimator(classifier, data[200:], labels[200:], ax=axes[2])
plt.show()
