"""
Sequences beside numbers: one kernel for a mixed table
======================================================

An enzyme has a sequence, and its activity is measured at some acidity and temperature. The kernel
of the table is a product: rows are alike if the sequences and the conditions are.
"""

# %%
# Enzymes of the data have one of two motifs, and each motif has an optimum of its own. A sum of
# kernels gives the sequence and the conditions separate effects. The product lets the optimum
# depend on the sequence.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import mercer as mc

rng = np.random.default_rng(0)
acidic = rng.random(400) < 0.5
sequences = []
for is_acidic in acidic:
    letters = rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), size=40)
    place = rng.integers(30)
    letters[place : place + 8] = list("DEDDEEDE" if is_acidic else "KRKKRRKR")
    sequences.append("".join(letters))
table = pd.DataFrame(
    {
        "sequence": sequences,
        "ph": rng.uniform(4, 10, size=400),
        "temperature": rng.uniform(20, 60, size=400),
    }
)
optimum = np.where(acidic, 5.5, 8.5)
activity = np.exp(-((table["ph"] - optimum) ** 2) / 4 - ((table["temperature"] - 40) / 20) ** 2)
activity += 0.05 * rng.normal(size=400)

sequence = mc.Spectrum(3).normalized().on("sequence")
conditions = mc.RBF([1.0, 20.0]).on("ph", "temperature")
X_train, X_test, y_train, y_test = train_test_split(table, activity, random_state=0)

_, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharex=True, sharey=True)
for ax, kernel in zip(axes, [sequence + conditions, sequence * conditions], strict=True):
    model = mc.KernelRidge(kernel, alpha="loo").fit(X_train, y_train)
    ax.scatter(model.predict(X_test), y_test, s=12)
    ax.set(xlabel="predicted activity", ylabel="measured activity")
    name = "sum" if ax is axes[0] else "product"
    ax.set_title(f"{name} of kernels: R² {model.score(X_test, y_test):.2f}")
plt.show()
