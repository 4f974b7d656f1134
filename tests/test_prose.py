"""The linter of prose sees phrases and long sentences, and nothing in code, formulas and tables."""

from __future__ import annotations

from pathlib import Path

from tools.prose import complaints

LONG = " ".join(["word"] * 31) + "."

PAGE = f"""# {LONG}

```python
x = "anew"  # {LONG}
```

$$
{LONG}
$$

| {LONG} |

Short. `anew` is code. It is computed
anew.

- {LONG}
"""

MODULE = '''"""The same as before."""

found = 1
wanted = "anew"  # computed anew
'''


def test_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert list(complaints(page)) == [
        f"{page}:13: 'anew': again",
        f"{page}:16: a sentence of 31 words: - word word word word word word word ...",
    ]


def test_a_module(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(MODULE, encoding="utf-8")
    lines = [complaint.removeprefix(f"{module}:") for complaint in complaints(module)]
    assert lines == [
        '1: \'"""The same\': say what differs',
        "4: 'anew': again",
        "3: 'found =': name the value",
    ]
