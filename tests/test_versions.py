"""Versions and the machine."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy
import sklearn

import mercer as mc
from mercer import _core


def test_versions_cores_and_the_instruction_set_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mc.show_versions()
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["Python"].startswith(sys.version.split()[0])
    assert rows["mercer"] == mc.__version__
    assert rows["numpy"] == np.__version__
    assert rows["scipy"] == scipy.__version__
    assert rows["scikit-learn"] == sklearn.__version__
    assert _core.cpu() in rows["engine"]
    assert int(rows["cores"]) >= 1
    assert "available" in rows["memory"]


def test_packages_that_are_missing_are_left_out_or_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercer.versions._PACKAGES", ("mercer", "no-such-package"))
    monkeypatch.setattr("mercer.versions._OPTIONAL", ("no-such-option",))
    mc.show_versions()
    shown = capsys.readouterr().out
    assert "no-such-package  not installed" in shown
    assert "no-such-option" not in shown
