"""
Length-scale and penalty, chosen together
=========================================

``length_scales=`` compares kernels and penalties by their leave-one-out error. One
eigendecomposition for each length-scale serves all penalties, and no model is fitted again.
"""

# %%
# The valley shows that a longer length-scale asks for a weaker penalty. The star is the choice. The
# line encloses candidates within one standard error of it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1, make_moons

import mercer as mc

X, y = make_friedman1(200, noise=1.0, random_state=0)
scales = np.geomspace(0.3, 10, 14)
model = mc.KernelRidge(mc.RBF(), alpha="loo", length_scales=scales).fit(X, y)
print(f"{model.kernel_}, alpha = {model.alpha_:.3g}")

mc.plot.SearchDisplay.from_estimator(model)
plt.show()

# %%
# Cross-validation of a support vector machine: `SVCSearch`, or any search of scikit-learn.

X, labels = make_moons(150, noise=0.3, random_state=0)
search = mc.SVCSearch(Cs=np.geomspace(0.1, 1000, 9), length_scales=np.geomspace(0.1, 5, 8))
mc.plot.SearchDisplay.from_estimator(search.fit(X, labels))
plt.show()
