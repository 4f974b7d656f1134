"""Which rows the functions of several classes learn from."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from few_rows import CODES
from mercer.models.svm.schemes import scheme_of


def naive_sides(n: int, multi_class: str, codes: NDArray[np.intp]) -> list[dict[int, float]]:
    """For each function its rows and their signs, in the order of the rows."""
    rows = list(enumerate(codes.tolist()))
    if n == 2:
        return [{k: 1.0 if code == 1 else -1.0 for k, code in rows}]
    if multi_class == "ovr":
        return [{k: 1.0 if code == own else -1.0 for k, code in rows} for own in range(n)]
    found = []
    for first, second in combinations(range(n), 2):
        ours = {k: 1.0 for k, code in rows if code == first}
        found.append(ours | {k: -1.0 for k, code in rows if code == second})
    return found


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_sides_of_every_function(n_classes: int, multi_class: str) -> None:
    codes = CODES[n_classes > CODES]
    positions, signs, sizes = scheme_of(n_classes, multi_class).sides(codes)
    want = naive_sides(n_classes, multi_class, codes)
    assert sizes.tolist() == [len(side) for side in want]
    assert positions.tolist() == [row for side in want for row in side]
    assert signs.tolist() == [sign for side in want for sign in side.values()]
