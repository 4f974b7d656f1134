"""Labels as 64-bit codes that are comparable between collections.

A whole number of 64 bits is its own code. Other labels have the first 64 bits of a BLAKE2 hash of
their content, the same in every process. Two of m labels share a code with odds of about
m^2 / 2^65: 3e-8 for a million labels.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataTypeError
from mercer.kernels.containers import is_missing

#: Whole numbers that are their own codes.
_WHOLE = range(-(2**63), 2**63)


def label_codes(labels: Any, what: str) -> Array:
    """The codes of labels, as uint64; `what` names the labels in errors.

    The rows of a table are labels too. Numbers of one value have one code, whatever their type.
    """
    if isinstance(labels, list) and labels and type(labels[0]) is int:
        array = np.asarray(labels)
        labels = array if array.dtype == np.int64 else labels
    if _are_whole(labels):
        return np.asarray(labels, np.int64).view(np.uint64)
    if isinstance(labels, np.ndarray):
        labels = map(tuple, labels.tolist()) if labels.ndim == 2 else labels.tolist()
    try:
        return np.fromiter(map(_code, labels), np.uint64)
    except TypeError as error:
        raise DataTypeError(
            f"{what}: {error}; labels are numbers, strings, bytes, or tuples of these."
        ) from None


def _are_whole(labels: Any) -> bool:
    """Whether labels are a vector of whole numbers that are their own codes."""
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iub" or labels.ndim != 1:
        return False
    return labels.dtype != np.uint64 or int(labels.max(initial=0)) in _WHOLE


@lru_cache(maxsize=2**16)
def _code(label: Any) -> int:
    if isinstance(label, np.generic):
        label = label.item()
    if is_missing(label):
        raise TypeError(f"{label} is missing")
    if isinstance(label, int | float):
        whole = isinstance(label, int) or label.is_integer()
        if whole and int(label) in _WHOLE:
            return int(label) % 2**64
        content = f"number {label!r}".encode()
    elif isinstance(label, str):
        content = b"text " + label.encode("utf-8", "surrogatepass")
    elif isinstance(label, bytes):
        content = b"bytes " + label
    elif isinstance(label, tuple):
        content = b"tuple " + b"".join(_code(item).to_bytes(8, "little") for item in label)
    else:
        raise TypeError(f"{label!r:.60} is of type {type(label).__name__}")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")
