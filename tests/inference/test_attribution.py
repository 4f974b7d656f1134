from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.inference import attribution

rng = np.random.default_rng(0)


def naive_shapley(matrices: Any, s: Any) -> list[float]:
    """The mean gain over all sets of other columns, by enumeration."""
    d = len(matrices)

    def value(columns: tuple[int, ...]) -> float:
        return float(s @ np.prod([matrices[j] for j in columns], axis=0) @ s) if columns else 0.0

    values = []
    for j in range(d):
        rest, total = [i for i in range(d) if i != j], 0.0
        for size in range(d):
            weight = factorial(size) * factorial(d - size - 1) / factorial(d)
            for chosen in combinations(rest, size):
                total += weight * (value((*chosen, j)) - value(chosen))
        values.append(total)
    return values


@pytest.mark.parametrize("d", [1, 2, 5, 6])
@pytest.mark.parametrize("base", [mc.RBF, mc.Laplacian])
def test_values_are_those_of_all_sets_of_columns(base: Any, d: int) -> None:
    x, y = rng.normal(size=(8, d)), rng.normal(size=(6, d)) + 0.5
    kernel = base(np.linspace(0.5, 2.0, d) if d > 1 else 0.7)
    pooled = np.vstack([x, y])
    lengths = np.broadcast_to(kernel.length_scale, d)
    matrices = [base(float(lengths[j]))(pooled[:, [j]]) for j in range(d)]
    s = np.repeat([1 / 8, -1 / 6], [8, 6])
    result = attribution(x, y, kernel)
    np.testing.assert_allclose(result.values, naive_shapley(matrices, s), atol=1e-12)
    assert result.statistic == pytest.approx(s @ kernel(pooled) @ s)


def test_factors_of_a_product_with_negative_values() -> None:
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(7, 3))
    factors = [mc.RBF().on(0), mc.Linear().on(1), mc.Cosine(0.5).on(2)]
    pooled, s = np.vstack([x, y]), np.repeat([1 / 7, -1 / 7], 7)
    result = attribution(x, y, factors[0] * factors[1] * factors[2])
    expected = naive_shapley([k(pooled) for k in factors], s)
    np.testing.assert_allclose(result.values, expected, atol=1e-12)


def test_names_and_order() -> None:
    x = pd.DataFrame(rng.normal(size=(60, 6)), columns=list("abcdef"))
    y = x.copy()
    y["d"] += 3.0
    result = attribution(x, y)
    assert result.names[result.order[0]] == "d"
    assert str(result).startswith(f"squared discrepancy {result.statistic:.3f}: d +")
    assert str(result).endswith(", 1 more")
    assert repr(result).startswith("Attribution(6 columns")


def test_equal_samples_and_other_kernels() -> None:
    x = rng.normal(size=(5, 2))
    np.testing.assert_allclose(attribution(x, x).values, 0.0, atol=1e-15)
    with pytest.raises(mc.exceptions.ParameterError, match="not a product over columns"):
        attribution(x, x, mc.Matern())
