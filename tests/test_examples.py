"""The scripts in examples/ run and draw, and have what their pages in the gallery need."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import mercer as mc

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(autouse=True)
def closed_figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mpl.use("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    yield
    plt.close("all")


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_draws_figures_with_labels_and_titles(script: Path) -> None:
    runpy.run_path(str(script))
    assert plt.get_fignums()
    for number in plt.get_fignums():
        figure = plt.figure(number)
        figure.canvas.draw()
        assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
        assert figure.axes[0].get_title()


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_has_a_title_and_an_explanation(script: Path) -> None:
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
    assert docstring is not None
    title, underline, blank, *explanation = docstring.splitlines()
    assert underline == "=" * len(title)
    assert blank == ""
    assert len(" ".join(explanation).split()) >= 20


def test_every_display_has_an_example() -> None:
    text = "".join(script.read_text(encoding="utf-8") for script in EXAMPLES)
    missing = [name for name in mc.plot.__all__ if not re.search(rf"mc\.plot\.{name}[.(]", text)]
    assert missing == []
