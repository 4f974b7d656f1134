"""
Protein fitness: variants of one protein, and how positions act together
========================================================================

A protein is changed at four positions, and the fitness of each variant is measured. A kernel of
single letters at fixed positions gives each change its own effect. A power of it also learns how
changes act together.
"""

# %%
# The data are generated, four positions of protein G as an example. Each letter multiplies the
# fitness by a factor of its position, so that effects of changes depend on each other. Variants
# with at most two changes are known, and variants with three or four are predicted.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
wild = np.array(list("VDGV"))
factors = np.exp(rng.normal(-0.5, 0.7, size=(4, 20)))
factors[np.arange(4), np.searchsorted(letters, wild)] = 1.0


def variants(changes, count):
    """Some variants with so many changes, and their fitness."""
    codes = np.tile(np.searchsorted(letters, wild), (count, 1))
    for row in codes:
        places = rng.choice(4, size=changes, replace=False)
        row[places] = (row[places] + rng.integers(1, 20, size=changes)) % 20
    fitness = factors[np.arange(4), codes].prod(axis=1) + 0.03 * rng.normal(size=count)
    return ["".join(row) for row in letters[codes]], fitness


def joined(first, second):
    return first[0] + second[0], np.concatenate([first[1], second[1]])


X, y = joined(variants(1, 60), variants(2, 600))
X_test, y_test = joined(variants(3, 300), variants(4, 300))

# %%
# ``WeightedDegree(1)`` counts equal letters at equal positions, as one column for each letter of
# each position would. Its third power holds all products of three such columns.

single = mc.WeightedDegree(degree=1, alphabet="protein").normalized()
kernels = {"each change by itself": single, "changes together": (1.0 + single) ** 3}
_, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharex=True, sharey=True)
for ax, (title, kernel) in zip(axes, kernels.items(), strict=True):
    model = mc.KernelRidge(kernel, alpha="loo").fit(X, y)
    ax.scatter(model.predict(X_test), y_test, s=8)
    ax.set(xlabel="predicted fitness", ylabel="measured fitness")
    ax.set_title(f"{title}: R² {model.score(X_test, y_test):.2f}")
plt.show()
