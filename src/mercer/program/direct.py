"""Small arrays, straight to the engine: for matrices that take less time than their preparation.

Optimisers and loops call kernels on a few points, thousands of times. Where all that a kernel reads
are the columns of a plain array of floats, one call of the engine checks, centres, scales and packs
them, with the same results as the ordinary way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import _core
from mercer.program.expression import Expr
from mercer.program.lower import lower
from mercer.program.pairs import Array, Pairs
from mercer.program.specialise import specialise

#: Pairs up to which this way is taken; beyond, threads and forecasts of memory begin to matter.
LIMIT = 2**15


def is_plain(X: Any) -> bool:
    """Whether X is an array that needs no conversion."""
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.char in "df" and X.dtype.isnative


def bind(root: Expr, pairs: Pairs) -> Any | None:
    """The program for columns of this number and type; None if it needs more than columns."""
    special = specialise(root, pairs)
    lowered = lower((special.root,))
    needs_more = lowered.vectors or lowered.blocks or lowered.compares_rows
    if needs_more or special.computed != special.given or not lowered.slots:
        return None
    data, slots = pairs.cols.data, []
    for slot in lowered.slots:
        if slot.angle is not None or pairs.cols.matrix(slot.view) is not data:
            return None
        scale = pairs.scale(slot, data.shape[1])
        slots.append((slot.centred, [] if scale is None else scale.tolist()))
    scalars = pairs.values.scalars(lowered.scalars)
    return _core.Direct(lowered.program, lowered.results[0], scalars.tolist(), slots)


def gram(bound: Any, X: Array, Z: Array | None) -> Array | None:
    """The matrix of all pairs; None where the ordinary way has an error to explain."""
    out = np.empty((len(X), len(X if Z is None else Z)), X.dtype)
    return out if bound.gram(X, Z, out) else None
