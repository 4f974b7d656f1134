"""The command line."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict

import mercer as mc
from mercer.cli import main


def test_the_demo_shows_the_scores_of_its_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    X, y = load_diabetes(return_X_y=True)
    folds = KFold(5, shuffle=True, random_state=0)
    score = r2_score(y, cross_val_predict(LinearRegression(), X, y, cv=folds))
    (row,) = [line for line in shown.splitlines() if "least squares" in line]
    np.testing.assert_allclose(float(row.split()[2]), score, atol=1e-3)
    assert "is_psd = True" in shown
    assert "kernel ridge, composed" in shown


def test_the_version_and_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"mercer {mc.__version__}"
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
