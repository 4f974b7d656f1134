"""What a kernel finds similar.

The Gram matrix of the irises, sorted by species, and within a species so that similar flowers are
neighbours: one species stands apart, the other two touch.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import mercer as mc

iris = load_iris()
species = iris.target_names[iris.target]
mc.plot.GramDisplay.from_kernel(mc.RBF(length_scale="median"), iris.data, species)
plt.show()
