"""The linter of prose sees phrases and long sentences, and nothing in code, formulas and tables."""

from __future__ import annotations

from pathlib import Path

from tools.prose import complaints

LONG = " ".join(["word"] * 26) + "."

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

MESSAGES = f'''
def f(x):
    warn(f"f: computed anew with {{x}}; pass 1.", UserWarning)
    text = "anew"  # no message
    raise ValueError(
        "f: short. " f"X is {{x}}: "
        "{LONG}"
    )
'''

MODULE = '''"""The same as before."""

found = 1
wanted = "anew"  # computed anew
'''


def test_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert list(complaints(page)) == [
        f"{page}:13: 'anew': again",
        f"{page}:16: a sentence of 26 words: - word word word word word word word ...",
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


def test_messages_of_errors_and_warnings(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(MESSAGES, encoding="utf-8")
    lines = [complaint.removeprefix(f"{module}:") for complaint in complaints(module)]
    assert sorted(lines) == [
        "3: 'anew': again",
        "6: a sentence of 29 words: X is X: word word word word word ...",
    ]
