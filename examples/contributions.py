"""
The training points behind a prediction
=======================================

Every prediction of a kernel model is a sum over training points. The bars are its largest terms,
and all bars add up to the prediction.
"""

# %%
# Most terms are large because the points are similar to this flower. The label names the row of
# the training data and the value of the kernel.

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import mercer as mc

iris = load_iris()
species = iris.target_names[iris.target]
model = mc.KernelLogisticRegression(mc.RBF("scale"), alpha=0.1).fit(iris.data, species)
mc.plot.ContributionsDisplay.from_estimator(model, iris.data[70], top=8)
plt.show()
