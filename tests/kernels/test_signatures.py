"""Constructors as editors, type checkers and ``help`` see them."""

from __future__ import annotations

import ast
import inspect
import pydoc
from pathlib import Path

import pytest

import mercer as mc
from mercer.kernels.base import Kernel

BUILT_IN = [
    kernel
    for name in mc.__all__
    if isinstance(kernel := getattr(mc, name), type)
    and issubclass(kernel, Kernel)
    and not inspect.isabstract(kernel)
]


def constructor(kernel: type[Kernel]) -> ast.FunctionDef:
    """The ``__init__`` that stands in the source of a class, for type checkers or for all."""
    (tree,) = ast.parse(inspect.getsource(kernel)).body
    (found,) = [
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "__init__"
    ]
    return found


@pytest.mark.parametrize("kernel", BUILT_IN, ids=lambda kernel: kernel.__name__)
def test_the_constructor_in_the_source_is_the_one_that_runs(kernel: type[Kernel]) -> None:
    if not kernel.__module__.endswith("algebra"):  # takes any number of kernels
        written = constructor(kernel).args
        signature = inspect.signature(kernel).parameters
        assert [a.arg for a in written.args[1:]] == list(signature)
        assert all(a.annotation is not None for a in written.args[1:])
        defaults = [p.default for p in signature.values() if p.default is not p.empty]
        for node, default in zip(written.defaults, defaults, strict=True):
            value = ast.literal_eval(node)
            assert (list(value) if isinstance(value, tuple) else value) == default


def test_help_shows_the_constructor_and_the_methods_but_no_machinery() -> None:
    text = pydoc.plain(pydoc.render_doc(mc.RBF))
    assert "RBF(length_scale=1.0)" in text
    assert "Gaussian kernel" in text
    for shown in ("gram(self, X", "replace(self, **params", "theta", "__add__", "__call__"):
        assert shown in text
    for hidden in (" _trace", "_tree", " _values", "__setattr__", "__reduce__", "__signature__"):
        assert hidden not in text


def test_type_checkers_know_the_parameters(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is in the lint extra")
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "from mercer.kernels.stationary import RBF, Matern\n"
        "RBF(length_scale=[1.0, 2.0]) + Matern('median', nu=0.5)\n"
        "RBF(lenght_scale=2)\n"
        "Matern(nu='smooth')\n"
    )
    source = Path(mc.__file__).parents[1]
    options = ["--follow-imports=silent", f"--cache-dir={tmp_path}", "--no-error-summary"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", str(source))
        out, _, status = api.run([*options, str(snippet)])
    assert status == 1, out
    errors = [
        line.split(": ", 1)[0].rsplit(":", 1)[1] for line in out.splitlines() if "error" in line
    ]
    assert errors == ["3", "4"], out
