"""
A Gaussian process with its uncertainty
=======================================

The bands hold the function with the stated probability. They are narrow where there are data, and
wide in the gap between them and beyond.
"""

# %%
# Before it sees data, a model expects functions of its kernel.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

prior = mc.GaussianProcessRegressor(mc.RBF(length_scale=1.0))
mc.plot.GaussianProcessDisplay.from_estimator(prior, [[0.0], [10.0]], n_samples=4)
plt.show()

# %%
# Kernel parameters and noise are learned from the 26 points.

rng = np.random.default_rng(1)
X = np.sort(np.concatenate([rng.uniform(0, 4, 14), rng.uniform(7, 10, 12)]))[:, None]
y = np.sin(1.3 * X).ravel() + 0.1 * rng.normal(size=len(X))

model = mc.GaussianProcessRegressor(1.0 * mc.RBF(length_scale=1.0)).fit(X, y)
print(f"{model.kernel_}, standard deviation of the noise {model.noise_**0.5:.2f}")

# %%
# Thin lines are draws from the posterior: functions that agree with the data, and differ where
# there are none.

mc.plot.GaussianProcessDisplay.from_estimator(model, X, y, n_samples=4)
plt.show()
