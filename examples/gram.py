"""
What a kernel finds similar
===========================

The Gram matrix holds the kernel's value for every pair of rows. Here the rows are irises, sorted
by species, and within a species so that similar flowers are neighbours.
"""

# %%
# One species stands apart: its block is bright, and the rest of its rows is dark. The other two
# touch, so that some of their flowers are hard to tell apart.

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import mercer as mc

iris = load_iris()
species = iris.target_names[iris.target]
kernel = mc.RBF(length_scale="median")
mc.plot.GramDisplay.from_kernel(kernel, iris.data, species)
plt.show()

# %%
# Few eigenvalues hold most of the matrix: to this kernel, 150 flowers are little more than a few
# functions.

mc.plot.GramDisplay.from_kernel(kernel, iris.data, species, eigenvalues=True)
plt.show()
