"""
How many rows a test needs
==========================

The power of a test is the share of samples for which it rejects a hypothesis that does not hold. A
simulation of samples like those that you expect says how many rows are enough.
"""

# %%
# The band is the 95% interval of the simulation, which more simulations make narrower.

import matplotlib.pyplot as plt

import mercer as mc


def draw(n, rng):
    """Two samples whose means differ by 0.7 standard deviations."""
    return rng.normal(size=(n, 1)), 0.7 + rng.normal(size=(n, 1))


sizes = [10, 20, 40, 60]
curve = mc.inference.power(draw, sizes, n_simulations=60, n_resamples=99, random_state=0)
mc.plot.PowerDisplay.from_curve(curve)
plt.show()
