"""Draws of standard normal rows: independent, orthogonal or quasi-random.

Each row is exactly standard normal; dependence between rows reduces the variance of means.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from mercer.arrays import Float64Array as Array
from mercer.exceptions import ParameterError
from mercer.sampling import random_numbers

# Number of columns for which scipy has direction numbers.
_SOBOL_COLUMNS = 21_201
# Smallest uniform number, for which the normal quantile is finite.
_TINY = 2.0**-60


def generator(random_state: Any, owner: str) -> np.random.Generator:
    """A generator seeded from a random state of scikit-learn."""
    return np.random.default_rng(random_numbers(random_state, owner).randint(2**31 - 1, size=4))


def normals_and_uniforms(
    method: str, rows: int, normals: int, uniforms: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw rows of standard normal and of uniform numbers."""
    if method == "sobol":
        points = _sobol(rows, normals + uniforms, rng)
        return ndtri(points[:, :normals]), points[:, normals:]
    if method == "orthogonal":
        vectors = orthogonal_normals(rows, normals, rng)
    else:
        vectors = rng.standard_normal((rows, normals))
    return vectors, _inside(rng.random((rows, uniforms)))


def orthogonal_normals(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Draw standard normal rows in d columns that are orthogonal within groups of d rows.

    Directions come from a random rotation, independent lengths from the chi distribution.

    Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, Orthogonal random features, 2016.
    """
    if columns <= 1 or rows == 0:
        return rng.standard_normal((rows, columns))
    group = min(rows, columns)
    groups = -(-rows // group)
    # Multiplying by the signs of the diagonal of R makes the rotation uniform (Haar).
    Q, R = np.linalg.qr(rng.standard_normal((groups, columns, group)))
    Q = Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]
    directions = Q.transpose(0, 2, 1).reshape(-1, columns)[:rows]
    lengths = np.sqrt(rng.chisquare(columns, size=(rows, 1)))
    return np.asarray(directions * lengths)


def _sobol(rows: int, columns: int, rng: np.random.Generator) -> Array:
    if columns > _SOBOL_COLUMNS:
        raise ParameterError(
            f'method = "sobol" takes at most {_SOBOL_COLUMNS} numbers for each frequency, but the '
            f'kernel needs {columns}; use method="orthogonal", which is better from about 20 '
            "columns on."
        )
    if columns == 0:
        return np.empty((rows, 0))
    # Sobol points are balanced if their number is a power of two, and nearly so otherwise.
    power = max(rows - 1, 0).bit_length()
    return _inside(qmc.Sobol(columns, scramble=True, seed=rng).random_base2(power)[:rows])


def _inside(uniforms: Array) -> Array:
    return np.clip(uniforms, _TINY, 1 - 2.0**-53)
