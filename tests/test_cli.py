"""The command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

import mercer as mc
from mercer.cli import main


def test_the_demo_shows_the_scores_of_its_models(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "demo.png"
    assert main(["demo", "--picture", str(picture)]) == 0
    shown = capsys.readouterr().out
    X, y = make_friedman1(3000, noise=1.0, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, train_size=1000, random_state=0)
    score = LinearRegression().fit(X, y).score(X_test, y_test)
    rows = [line.split(" R2 ")[1] for line in shown.splitlines() if " R2 0" in line]
    scores = [float(row.split()[0]) for row in rows]
    np.testing.assert_allclose(scores[0], score, atol=1e-3)
    assert scores[0] < scores[1] < scores[2]
    assert picture.stat().st_size > 10_000
    accuracies = {line.split()[2] for line in shown.splitlines() if " accuracy " in line}
    assert len(accuracies) == 1  # of mercer and of scikit-learn


def test_the_demo_without_matplotlib_names_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["demo", "--picture", str(tmp_path / "demo.png")]) == 0
    assert 'pip install "mercer[plot]"' in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_version_and_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"mercer {mc.__version__}"
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])


def test_info_shows_versions_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    mc.show_versions()
    assert [line.split()[0] for line in shown.splitlines()] == [
        line.split()[0] for line in capsys.readouterr().out.splitlines()
    ]
