"""
The curve of a regressor, and a fan of quantiles
================================================

A regressor of one column is a curve. Kernel ridge draws one through the mean of the targets.
Quantiles draw a fan, which is wide where the targets are.
"""

# %%
# The noise grows with x. The fan shows it, and the mean does not.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mercer as mc

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, size=200))[:, None]
y = np.sin(X).ravel() + 0.1 * X.ravel() * rng.normal(size=200)

_, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
ridge = mc.KernelRidge(mc.RBF(), alpha="loo").fit(X, y)
mc.plot.CurveDisplay.from_estimator(ridge, X, y, ax=axes[0])

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
quantiles = mc.KernelQuantileRegressor(mc.RBF(), quantile=levels, alpha=0.02).fit(X, y)
mc.plot.CurveDisplay.from_estimator(quantiles, X, y, ax=axes[1])
plt.show()

# %%
# A column of dates has an axis of dates. The model has seen the filled points only.

months = pd.DataFrame({"month": pd.date_range("2015-01-01", periods=96, freq="MS")})
time = np.arange(96)
sales = 100 + 0.5 * time + 10 * np.sin(2 * np.pi * time / 12) + 3 * rng.normal(size=96)
sales = pd.Series(sales, name="sales")

kernel = 1.0 * mc.RBF(length_scale=1000.0) + 1.0 * mc.Periodic(mc.Fixed(365.25))
process = mc.GaussianProcessRegressor(kernel).fit(months[:72], sales[:72])
mc.plot.CurveDisplay.from_estimator(process, months, sales)
plt.show()
