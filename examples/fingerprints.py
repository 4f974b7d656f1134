"""
Fingerprints: a Gaussian process of molecules, with intervals
=============================================================

A fingerprint says which substructures a molecule has, as 2,048 bits. The Tanimoto kernel is the
share of substructures that two molecules have in common. A Gaussian process with this kernel
predicts a property, and says how sure it is.
"""

# %%
# The fingerprints are generated: families of molecules share a scaffold, and some substructures
# raise or lower the property. With fingerprints of your own, such as those of RDKit, replace
# ``bits`` by an array with one row for each molecule.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
scaffolds = rng.random((30, 2048)) < 0.02
bits = scaffolds[rng.integers(30, size=500)] | (rng.random((500, 2048)) < 0.003)
property_ = bits @ rng.normal(0, 0.5, size=2048) + 0.2 * rng.normal(size=500)

train, test = slice(0, 400), slice(400, 500)
model = mc.GaussianProcessRegressor(1.0 * mc.Tanimoto()).fit(bits[train], property_[train])
mean = model.predict(bits[test])
low, high = model.predict_interval(bits[test], coverage=0.95).T

# %%
# An interval holds a new measurement with a probability of 95 %. A molecule unlike all others
# has a wide interval.

inside = (low <= property_[test]) & (property_[test] <= high)
nearest = mc.Tanimoto()(bits[test], bits[train]).max(axis=1)

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
left.errorbar(mean, property_[test], xerr=[mean - low, high - mean], fmt="o", ms=3, lw=0.7)
left.axline((mean.mean(), mean.mean()), slope=1, color="grey", lw=1)
left.set(xlabel="predicted, with intervals of 95 %", ylabel="measured")
left.set_title(f"{inside.mean():.0%} of the intervals hold the measurement")
right.scatter(nearest, high - low, s=12)
right.set(xlabel="similarity to the nearest known molecule", ylabel="width of the interval")
right.set_title("Unlike molecules have wide intervals")
plt.show()
