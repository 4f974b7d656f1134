r"""
What a penalty keeps
====================

Kernel ridge multiplies the part of the target along the j-th eigenvector of the Gram matrix by
:math:`s_j / (s_j + \alpha)`. The factor is nearly 1 for large eigenvalues :math:`s_j`, which
belong to smooth functions, and nearly 0 for small ones.
"""

# %%
# The sum of the factors is the number of degrees of freedom. A stronger penalty leaves fewer.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import mercer as mc

X, y = load_diabetes(return_X_y=True)
X = scale(X)

_, ax = plt.subplots(layout="constrained")
for alpha, color in ((0.1, "#0072B2"), (1.0, "#D55E00"), (10.0, "#009E73")):
    model = mc.KernelRidge(mc.RBF(length_scale=4.0), alpha=alpha).fit(X, y)
    mc.plot.ShrinkageDisplay.from_estimator(model, ax=ax, color=color)
plt.show()
