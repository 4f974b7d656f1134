"""
Digits without noise
====================

Kernel principal components of noisy images, and images with the same scores: what is left is the
part that images share. As many linear components are beside them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import mercer as mc

clean, _ = load_digits(return_X_y=True)
clean = clean / 16
noisy = clean + 0.25 * np.random.default_rng(0).normal(size=clean.shape)
train, test = slice(0, 900), slice(900, 910)

kernel = mc.KernelPCA(mc.RBF(2.0), n_components=40, preimage="fixed_point").fit(noisy[train])
linear = PCA(40).fit(noisy[train])
rows = {
    "clean": clean[test],
    "noisy": noisy[test],
    "kernel PCA": kernel.inverse_transform(kernel.transform(noisy[test])),
    "PCA": linear.inverse_transform(linear.transform(noisy[test])),
}

fig, axes = plt.subplots(len(rows), 1, figsize=(8, 4.5), layout="constrained")
for ax, (name, images) in zip(axes, rows.items(), strict=True):
    error = np.mean((images - clean[test]) ** 2)
    ax.imshow(np.hstack(images.reshape(-1, 8, 8)), cmap="gray_r", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.set_ylabel(f"{name}\n{error:.3f}", rotation=0, ha="right", va="center")
fig.suptitle("Mean squared errors of noisy digits, restored by 40 components")
axes[0].set_title("ten images that the components have not seen", fontsize="medium")
plt.show()
