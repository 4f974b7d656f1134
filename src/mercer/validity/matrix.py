"""Standard form of a similarity matrix for the checks, and its quadratic form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError, DataTypeError
from mercer.linalg.symmetric import asymmetry as measured

Floats = NDArray[np.float64]


class Standard(NamedTuple):
    """The symmetric part of K as float64, with the asymmetry and the precision of K."""

    symmetric: Floats
    asymmetry: float  # the largest |K_ij - K_ji|
    eps: float  # rounding unit of the data type of K
    dtype: np.dtype[Any]

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.symmetric)


def real(values: Any, owner: str) -> NDArray[Any]:
    """Return a finite array of a real floating type that both LAPACK and NumPy support."""
    dense = values.toarray() if hasattr(values, "toarray") else values
    try:
        array = np.asarray(dense)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"{owner}: the matrix cannot be read as numbers ({error}); pass a real array."
        ) from error
    if array.dtype.kind not in "fiub":
        raise DataTypeError(
            f"{owner}: the matrix has dtype {array.dtype}, but must be real; pass floats."
        )
    if array.dtype not in (np.float16, np.float32, np.float64):
        array = array.astype(np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise DataError(
            f"{owner}: the matrix holds {array[where]} at {where}, but must be finite; "
            "remove missing values from the data, or look for overflow in the kernel."
        )
    return array


def standardise(array: NDArray[Any], owner: str) -> Standard:
    """Check the shape and take the symmetric part."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise DataError(
            f"{owner}: the matrix has shape {array.shape}, but must be square with at least one "
            "row; pass similarities of all points to all points."
        )
    largest = float(np.abs(array).max())
    if largest and not 1e-150 < largest < 1e150:
        raise DataError(
            f"{owner}: the largest entry of the matrix is {largest:.3g}, whose square is out of "
            "range; divide the matrix by it."
        )
    K = array.astype(np.float64)
    asymmetry = measured(K).size
    symmetric = K if asymmetry == 0 else (K + K.T) / 2
    return Standard(symmetric, asymmetry, float(np.finfo(array.dtype).eps), array.dtype)


def signed(vectors: Floats) -> Floats:
    """Fix the sign of each column: its entry of largest magnitude is positive."""
    if not vectors.size:
        return vectors
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return vectors * np.where(largest < 0, -1.0, 1.0)


def unit_witness(K: Floats, direction: Floats, conditional: bool) -> tuple[Floats, float]:
    """Return the direction as a witness of K itself, not of a projected or factored copy."""
    if conditional:
        direction = direction - direction.mean()
    witness = signed((direction / np.linalg.norm(direction))[:, None])[:, 0]
    return witness, quadratic_form(K, witness)


def quadratic_form(K: Floats, unit: Floats) -> float:
    """Return a'Ka."""
    return float(unit @ (K @ unit))
