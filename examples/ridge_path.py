"""
How strong a penalty should be
==============================

Leave-one-out errors have a closed form. A whole range of penalties costs one eigendecomposition,
and no model is fitted again.
"""

# %%
# The upper panel shows the errors, and the lower one the degrees of freedom that each penalty
# leaves. With ``alpha="loo"`` the model takes the penalty of the least error.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import mercer as mc

X, y = load_diabetes(return_X_y=True)
model = mc.KernelRidge(mc.RBF(length_scale=4.0), alpha="loo").fit(scale(X), y)
mc.plot.RidgePathDisplay.from_estimator(model)
plt.show()
