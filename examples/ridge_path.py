"""How strong a penalty should be.

Leave-one-out errors have a closed form, so that a whole range of penalties costs one
eigendecomposition. Below them, the degrees of freedom that each penalty leaves.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import mercer as mc

X, y = load_diabetes(return_X_y=True)
model = mc.KernelRidge(mc.RBF(length_scale=4.0), alpha="loo").fit(scale(X), y)
mc.plot.RidgePathDisplay.from_estimator(model)
plt.show()
