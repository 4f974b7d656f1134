"""Pre-images: points whose features over landmarks are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import mercer as mc
from landmark_data import KERNEL, WORDS, X, Z
from mercer.exceptions import NotDifferentiableError, NumericalWarning
from mercer.features import preimages

RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    "kernel",
    [
        mc.RBF("scale"),
        mc.Matern(nu=2.5, length_scale="scale"),
        mc.Linear(),
        mc.Polynomial(3),
        mc.RBF("scale") + mc.Linear(),
        mc.RBF("scale").normalized(),
    ],
    ids=repr,
)
def test_pre_images_bring_the_points_back(kernel: mc.Kernel) -> None:
    data = 100 + 5 * X
    model = mc.Nystrom(kernel, 40, random_state=0).fit(data)
    with np.errstate(all="raise"):
        found = model.inverse_transform(model.transform(data[:70]))
    # Polynomials far from 0 keep few digits of the differences between points.
    tolerance = 1e-2 if isinstance(kernel, mc.Polynomial) else 1e-5
    np.testing.assert_allclose(found, data[:70], atol=tolerance)


def test_pre_images_in_frames_and_sparse_matrices() -> None:
    kernel = mc.RBF(2.0).on("a", "c") + mc.Linear().on("b")
    frame = pd.DataFrame(X, columns=list("abc"))
    for data in (frame, pl.from_pandas(frame)):
        model = mc.Nystrom(kernel, 40, random_state=0).fit(data)
        np.testing.assert_allclose(model.inverse_transform(model.transform(data)), X, atol=1e-5)
    sparse = mc.Nystrom(KERNEL, 40, random_state=0).fit(sp.csr_array(X))
    np.testing.assert_allclose(
        sparse.inverse_transform(sparse.transform(sp.csr_array(X[:20]))), X[:20], atol=1e-5
    )


def test_features_of_no_point_have_the_nearest_one() -> None:
    model = mc.Nystrom(KERNEL, 40, random_state=0).fit(X)
    target = model.transform(Z[:5]) + 0.02 * RNG.normal(size=(5, 40))
    found = model.inverse_transform(target)
    near = np.linalg.norm(model.transform(found) - target, axis=1)
    assert (near <= np.linalg.norm(model.transform(Z[:5]) - target, axis=1)).all()


@pytest.mark.parametrize(
    ("kernel", "data"),
    [
        (mc.Spectrum(2), WORDS),
        (mc.Precomputed(KERNEL(X)), np.arange(150)[:, None]),
        (mc.Precomputed(), KERNEL(X)),
        (mc.FunctionKernel(lambda a, b: a @ b.T), X),
        (
            mc.RBF().on("a") + mc.Spectrum(2).on("word"),
            pd.DataFrame({"a": X[:60, 0], "word": WORDS}),
        ),
    ],
)
def test_what_has_no_pre_image_says_why(kernel: mc.Kernel, data: Any) -> None:
    model = mc.Nystrom(kernel, 5, random_state=0).fit(data)
    with pytest.raises(NotDifferentiableError, match=r"Nystrom: features of .* have no pre-images"):
        model.inverse_transform(model.transform(data))


def test_an_unfinished_search_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preimages, "_MAX_ITER", 1)
    model = mc.Nystrom(KERNEL, 20, random_state=0).fit(X)
    with pytest.warns(NumericalWarning, match="stopped after 1 steps"):
        model.inverse_transform(model.transform(Z))
