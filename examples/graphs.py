"""
Graphs: the matrix of molecules
===============================

A kernel on graphs compares molecules by the neighbourhoods of their atoms. Rows and columns of its
matrix are sorted by class here: rings first, then chains.
"""

# %%
# With depth 0 the kernel sees the atoms alone, and both classes look alike. Each round looks one
# bond further. After three rounds, molecules with a ring resemble each other more than the others.

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)


def molecule(ring: bool) -> mc.Graph:
    """Six atoms in a ring, or in a chain, with a few atoms attached."""
    edges = [(i, i + 1) for i in range(5)] + ([(5, 0)] if ring else [])
    labels = rng.choice(["C", "N"], size=6, p=[0.9, 0.1]).tolist()
    for _ in range(rng.integers(2, 6)):
        edges.append((int(rng.integers(6)), len(labels)))
        labels.append(str(rng.choice(["O", "H"])))
    return mc.Graph(edges, node_labels=labels)


molecules = [molecule(ring=i < 30) for i in range(60)]
_, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, depth in zip(axes, (0, 1, 3), strict=True):
    kernel = mc.WeisfeilerLehman(depth).normalized()
    ax.imshow(kernel(molecules), vmin=0, vmax=1)
    ax.set(title=f"depth {depth}", xlabel="molecule", ylabel="molecule")
plt.show()
