"""Functions of two inputs, their boundary, and the points that carry them.

Left, a support vector machine; dashed, where its decision function is -1 and 1, and rings around
the support vectors. Right, kernel ridge on targets of -1 and 1: rings have areas in proportion to
the coefficients of their points, and are largest around those on the wrong side.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

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
