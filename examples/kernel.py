"""
What a kernel expects
=====================

A kernel says how similar two inputs are. The functions of its Gaussian process show what a model
with this kernel expects before it sees data.
"""

# %%
# A Matern kernel of order 3/2 expects functions with one derivative, which vary over the
# length-scale.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

mc.plot.KernelDisplay.from_kernel(mc.Matern(nu=1.5, length_scale=2.0))
plt.show()

# %%
# A periodic kernel times a wide one expects waves that change slowly.

waves = mc.Periodic(1.0) * mc.RBF(length_scale=3.0)
mc.plot.KernelDisplay.from_kernel(waves, np.array([[0.0], [8.0]]))
plt.show()

# %%
# A linear kernel does not depend on distances. It is drawn at three centres.

mc.plot.KernelDisplay.from_kernel(1.0 + mc.Linear())
plt.show()
