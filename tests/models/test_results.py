"""What models return beside predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mercer as mc
from model_samples import NOISELESS, SMOOTH

X, Y, BOTH, Z, _, _ = NOISELESS
RBF = mc.RBF(length_scale=1.5)


def test_to_dict_is_a_data_frame() -> None:
    found = mc.KernelRidge(RBF).fit(X, Y).contributions(Z, top=3)
    for frame in (pd.DataFrame(found.to_dict()), pl.DataFrame(found.to_dict()).to_pandas()):
        assert list(frame.columns) == [
            *("row", "output", "rank", "index", "training_row", "kernel_value", "value")
        ]
        sums = frame.groupby("row")["value"].sum() + found.rest + found.intercept
        np.testing.assert_allclose(sums, found.prediction)
        assert frame["index"].to_numpy().reshape(7, 3).tolist() == found.indices.tolist()


def test_the_text_states_the_numbers() -> None:
    model = mc.KernelRidge(RBF).fit(X, Y)
    found = model.contributions(Z, top=2)
    text = str(found)
    assert f"row 0: f(x) = {found.prediction[0]:.4g}" in text
    assert f"{found.values[0, 1]:+.4g}" in text
    assert "28 others" in text
    assert text.endswith("... and 2 more rows")
    assert "others" not in str(model.contributions(Z[:1], top=30))
    assert repr(found) == "Contributions(m=7, top=2, training=Points(30 rows))"
    html = found._repr_html_()
    assert html.count("<table>") == 5
    assert f"<caption>row 0: f(x) = {found.prediction[0]:.4g}</caption>" in html
    assert f"<td>{found.values[0, 1]:+.4g}</td>" in html
    assert html.endswith("... and 2 more rows</p>")


def test_a_path_is_shown_as_a_table() -> None:
    path = mc.KernelRidge(RBF).path(X, Y, [0.1, 2.0])
    title, header, first, _ = repr(path).splitlines()
    assert title == f"RidgePath of 2 alphas, {RBF}"
    assert header.split() == ["alpha", "loo", "error", "gcv", "error", "dof"]
    assert [float(entry) for entry in first.split()] == pytest.approx(
        [0.1, path.loo_errors[0], path.gcv_errors[0], path.effective_dof[0]], rel=1e-3
    )
    assert f"<caption>{title}</caption>" in path._repr_html_()
    iterated = mc.KernelRidge(RBF, solver=mc.solvers.ConjugateGradient()).path(X, Y, [0.1])
    assert repr(iterated).splitlines()[1:] == ["alpha", "0.1"]


def test_primal_coefficients_have_the_names_of_columns() -> None:
    frame = pd.DataFrame(SMOOTH.X, columns=["a", "b", "c"])
    model = mc.KernelRidge(mc.Linear(), alpha=0.5).fit(frame, SMOOTH.Y)
    primal = model.primal_coef()
    assert primal.names == ("a", "b", "c")
    assert len(primal) == 3
    assert primal["b"] == primal.values[1]
    np.testing.assert_allclose(SMOOTH.X @ primal.values + primal.intercept, model.predict(frame))
    with pytest.raises(mc.exceptions.MercerError):
        mc.KernelRidge(RBF).fit(SMOOTH.X, SMOOTH.Y).primal_coef()


def test_a_path_predicts_by_the_sum_of_every_alpha() -> None:
    path = mc.KernelRidge(RBF).path(X, BOTH, [0.1, 2.0])
    found = path.predict(Z)
    assert found.shape == (2, 7, 2)
    for values, coef, intercept in zip(found, path.dual_coef, path.intercept, strict=True):
        np.testing.assert_allclose(values, RBF(Z, X) @ coef + intercept, rtol=1e-10)
