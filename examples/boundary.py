"""
Two inputs: a boundary and the points that carry it
===================================================

A model of two columns is a surface, and a classifier draws a boundary through it. Rings mark the
points that the function is a sum over, with areas in proportion to their coefficients.
"""

# %%
# A support vector machine rests on few points: those near the boundary, and those on the wrong
# side of it. Dashed lines show where its decision function is -1 and 1.
#
# Kernel ridge on targets of -1 and 1 rests on all points; the 60 largest coefficients have rings.
# The line is where the function is 0.

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris, make_moons

import mercer as mc

X, labels = make_moons(150, noise=0.2, random_state=0)
kernel = mc.RBF(length_scale=0.5)

_, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
machine = mc.SVC(kernel).fit(X, labels)
mc.plot.decision_boundary(machine, X, labels, ax=axes[0])

signs = 2.0 * labels - 1.0
ridge = mc.KernelRidge(kernel, alpha=0.5).fit(X, signs)
mc.plot.BoundaryDisplay.from_estimator(ridge, X, signs, ax=axes[1])
plt.show()

# %%
# Three classes: a colour is deeper where its class is further ahead of the next.

iris = load_iris()
plane, species = iris.data[:, :2], iris.target_names[iris.target]
flowers = mc.KernelLogisticRegression(mc.RBF(), alpha=0.1).fit(plane, species)
mc.plot.BoundaryDisplay.from_estimator(flowers, plane, species, coefficients=False)
plt.show()
