"""The code in README.md and docs/ runs, and every public name is documented with an example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from numpydoc.docscrape import get_doc_object

import mercer as mc

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)


def code_blocks(page: Path) -> list[tuple[int, str]]:
    """Return the first line number and the text of every ```python block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start("code")) + 1, dedent(match["code"]))
        for match in FENCE.finditer(text)
    ]


@pytest.fixture
def figures_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw without a window; close what a page leaves open."""
    mpl.use("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


@pytest.mark.usefixtures("figures_are_not_shown")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom_and_shows_its_output(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "page"}
    for line, code in code_blocks(page):
        with redirect_stdout(StringIO()) as shown:
            # Blank lines in front make a traceback point at the line of the page itself.
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
        shows = bool(shown.getvalue()) or "plt.show()" in code
        assert shows or page.parent.name != "docs", f"{page.name}:{line} shows nothing"


def test_pages_with_code_are_found() -> None:
    with_code = {page.stem for page in PAGES if code_blocks(page)}
    assert {"README", "getting_started", "algebra", "write_your_own_kernel"} <= with_code


def test_every_page_is_listed_and_linked() -> None:
    pages = {page.stem for page in (ROOT / "docs").iterdir() if page.suffix in {".md", ".rst"}}
    trees = re.findall(
        r"```{toctree}\n:caption: [^\n]+\n:hidden:\n:maxdepth: 1\n\n(.*?)```",
        _read("docs/index.md"),
        re.DOTALL,
    )
    listed = [page for tree in trees for page in tree.split()]
    assert sorted(listed) == sorted(pages - {"index"} | {"gallery/index"})
    linked = set(re.findall(r"\]\(docs/(\w+)\.(?:md|rst)\)", _read("README.md")))
    assert linked == pages


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def documented_names() -> list[str]:
    """Return the public classes and functions, without modules, exceptions and warnings."""

    def needs_an_example(value: object) -> bool:
        if isinstance(value, ModuleType) or not callable(value):
            return False
        return not (inspect.isclass(value) and issubclass(value, BaseException))

    return [name for name in mc.__all__ if needs_an_example(getattr(mc, name))]


@pytest.mark.parametrize("name", documented_names())
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    documentation = get_doc_object(getattr(mc, name))
    assert documentation["Summary"], f"{name} has no summary"
    assert documentation["Examples"], f"{name} has no Examples section"


def test_every_public_name_is_in_the_api_reference() -> None:
    listed = set((ROOT / "docs" / "api.rst").read_text(encoding="utf-8").split())
    missing = sorted({*documented_names(), *mc.plot.__all__} - listed)
    assert not missing, f"add to docs/api.rst: {missing}"
