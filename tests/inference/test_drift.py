from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.inference import DriftDetector, attribution, mmd_test

rng = np.random.default_rng(0)


def test_drift_is_the_test_with_its_columns() -> None:
    x = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    new = pd.DataFrame(rng.normal(size=(50, 3)), columns=["a", "b", "c"])
    new["b"] *= 3.0
    drift = DriftDetector(x, alpha=0.01, random_state=0).predict(new)
    test = mmd_test(x, new, alpha=0.01, random_state=0)
    assert drift.pvalue == test.pvalue
    assert drift.is_drift
    assert drift.attribution is not None
    np.testing.assert_allclose(drift.attribution.values, attribution(x, new, test.kernel).values)
    assert str(drift).startswith("Drift: p = 0.001; squared discrepancy ")
    assert repr(drift) == "Drift(is_drift=True, pvalue=0.001)"


def test_other_kernels_have_no_columns() -> None:
    detector = DriftDetector(["ab", "ba", "abb", "bba"], mc.Spectrum(1), random_state=0)
    drift = detector.predict(["ab", "bab", "baa"])
    assert drift.attribution is None
    assert not drift.is_drift
    assert str(drift).startswith("No drift: p = ")
    assert repr(detector) == "DriftDetector(4 rows, alpha=0.05)"


def test_bad_input() -> None:
    with pytest.raises(mc.exceptions.DataError, match=r"DriftDetector: x_ref has 1 row\(s\)"):
        DriftDetector([[1.0]])
    with pytest.raises(TypeError, match="p_val is not a parameter"):
        DriftDetector([[1.0], [2.0]], p_val=0.05)  # type: ignore[call-arg]
