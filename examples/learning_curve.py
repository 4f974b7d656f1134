"""Learning row by row.

Kernel least mean squares, written out: every row is predicted first, and its error, times a step
size, then becomes its coefficient. So each error is one on unseen data. It falls to the noise.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(2000, 1))
y = np.sin(2 * X).ravel() + 0.1 * rng.normal(size=len(X))

K = mc.RBF(length_scale=0.5)(X)
coefficients, errors = np.zeros(len(X)), np.empty(len(X))
for i in range(len(X)):
    errors[i] = y[i] - K[i] @ coefficients
    coefficients[i] = 0.3 * errors[i]

mc.plot.LearningCurveDisplay.from_errors(errors)
plt.show()
