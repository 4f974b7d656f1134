from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

import mercer as mc
from mercer.inference import samples


def kernels(data: object, kernel: object = None, **settings: object) -> list[mc.Kernel]:
    points = samples.sample("test", "x", data)
    options = {"each": 3, "both": True} | settings
    return samples.kernels_for("test", kernel, points, np.random.RandomState(0), **options)  # type: ignore[arg-type]


def test_default_kernels_span_the_distances() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 100.0]
    made = kernels(X)
    assert [type(k).__name__ for k in made] == 3 * ["RBF"] + 3 * ["Laplacian"]
    units = mc.RBF("columns").resolve(X).length_scale
    distances = pdist(X / units)
    expected = np.quantile(distances, [0.05, 0.95]) * [0.5, 2.0]
    ratios = [k.length_scale / units for k in made[:3]]
    np.testing.assert_allclose(ratios[0], expected[0])
    np.testing.assert_allclose(ratios[2], expected[1])
    np.testing.assert_allclose(ratios[1], np.sqrt(expected.prod()))


def test_constant_and_sparse_rows_have_kernels() -> None:
    assert len(kernels(np.ones((5, 2)))) == 2
    assert len(kernels(sp.csr_array(np.eye(5)))) == 3


def test_tables_and_given_kernels() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["u", "v", "u"]})
    assert kernels(frame) == [mc.table_kernel(frame).resolve(frame)]
    assert kernels([[0.0], [2.0]], [mc.RBF(1.0), "linear"]) == [mc.RBF(1.0), mc.Linear()]
    assert kernels(["ab", "b"], mc.Spectrum(1)) == [mc.Spectrum(1)]
    with pytest.raises(mc.exceptions.ParameterError, match="empty"):
        kernels([[0.0], [2.0]], [])
    with pytest.raises(mc.exceptions.ParameterError, match="White"):
        kernels([[0.0], [2.0]], mc.RBF() + mc.White())


def test_bad_samples() -> None:
    with pytest.raises(mc.exceptions.DataError, match=r"test: x has 1 row\(s\)"):
        samples.sample("test", "x", [[1.0]])
    with pytest.raises(mc.exceptions.DataError, match="x has 4, y has 5 rows"):
        samples.paired("test", x=np.ones((4, 1)), y=np.ones((5, 1)))
    assert samples.sample("test", "x", [1.0, 2.0]).shape == (2, 1)
    for bad in ({"n_resamples": 0, "alpha": 0.1}, {"n_resamples": 9, "alpha": 2.0}):
        with pytest.raises(mc.exceptions.ParameterError, match="test: "):
            samples.settings("test", **bad)
