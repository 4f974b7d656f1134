"""
The effects of a sum of kernels
===============================

A sum of kernels is a model with one function for each term. The display shows each function with
its uncertainty and its degrees of freedom, all on one scale.
"""

# %%
# Rents depend on the size of a flat, on its year of construction, its district and its place.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mercer as mc

rng = np.random.default_rng(0)
n = 300
flats = pd.DataFrame(
    {
        "size": rng.uniform(20, 140, n),
        "built": pd.to_datetime(rng.integers(1900, 2020, n).astype(str), format="%Y"),
        "district": rng.choice(["centre", "north", "south", "west"], n, p=[0.2, 0.4, 0.3, 0.1]),
        "east": rng.uniform(0, 10, n),
        "north": rng.uniform(0, 10, n),
    }
)
age = 2020 - flats["built"].dt.year
level = flats["district"].map({"centre": 3.0, "north": 0.0, "south": -1.0, "west": 1.0})
near_the_lake = 2 * np.exp(-((flats["east"] - 7) ** 2 + (flats["north"] - 3) ** 2) / 4)
rent = 8 + 60 / flats["size"] + 2 * np.cos(age / 20) + level + near_the_lake
rent += 0.5 * rng.normal(size=n)

# %%
# Write ``1.0 *`` in front of a term, so that a Gaussian process learns its size.

kernel = (
    1.0 * mc.RBF("scale").on("size")
    + 1.0 * mc.RBF("scale").on("built")
    + 1.0 * mc.Categorical().on("district")
    + 1.0 * mc.RBF("scale").on("east", "north")
)
model = mc.GaussianProcessRegressor(kernel).fit(flats, rent)
print(model.effects(flats))

# %%
# Effects are zero on average over the training rows. Bands hold the effect with a probability of
# 95%.

mc.plot.EffectsDisplay.from_estimator(model, flats)
plt.show()
