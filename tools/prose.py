"""Checks prose: phrases of tools/prose.txt, and the length of sentences in pages and messages.

Usage: python tools/prose.py README.md docs src. Folders are searched for .md and .py files.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

LONGEST = 25  # words of a sentence
# Calls whose texts are messages, beside those in `raise`.
WARNINGS = {"warn", "warnings.warn"}

# What is no prose in Markdown: code, formulas, tables, headings, and the targets of links.
BLOCKS = re.compile(r"^ *(```|\$\$).*?\1 *$|^\|[^\n]*|^#[^\n]*", re.M | re.S)
INLINE = re.compile(r"`[^`]+`|\$[^$]+\$|\]\([^)]*\)")
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")
SENTENCES = {
    "docs": re.compile(r"(?<=[.!?])[)*\"]*\s+(?=[^a-z])"),
    # A message has the form "owner: value, rule; remedy." Rule and remedy count by themselves.
    "message": re.compile(r"(?<=[.!?;])\s+"),
}
DOCSTRING = re.compile(r'^[rf]{0,2}("""|\'\'\')')

Passage = tuple[int, str, str]  # line, kind, text


def phrases() -> list[tuple[str, re.Pattern[str], str]]:
    """Read the word list."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"\s+\|\s+", line) for line in lines if line and not line.startswith("#")]
    return [(kind, re.compile(pattern, re.I), remedy) for kind, pattern, remedy in rows]


def of_page(text: str) -> Iterator[Passage]:
    """Yield the paragraphs of a Markdown page, without code and tables; lines stay in place."""
    prose = BLOCKS.sub(lambda match: "\n" * match[0].count("\n"), text)
    start = 0
    for match in [*PARAGRAPH.finditer(prose), None]:
        paragraph = prose[start : match.start() if match else None]
        line = prose.count("\n", 0, start + len(paragraph) - len(paragraph.lstrip())) + 1
        yield line, "docs", INLINE.sub("X", paragraph)
        start = match.end() if match else len(prose)


def of_source(text: str) -> Iterator[Passage]:
    """Yield the comments, docstrings and lines of code of a Python module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or DOCSTRING.match(token.string):
            yield token.start[0], "src", token.string
    for number, line in enumerate(text.splitlines(), start=1):
        yield number, "code", line


def of_messages(text: str) -> Iterator[Passage]:
    """Yield the texts in `raise` statements and in calls of `warn`; a value counts as one word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            arguments = node.exc.args
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in WARNINGS:
            arguments = node.args
        else:
            continue
        for argument in arguments:
            for literal in ast.walk(argument):
                if isinstance(literal, ast.JoinedStr | ast.Constant):
                    message = _message(literal)
                    if " " in message.strip():
                        yield literal.lineno, "message", message
                    if isinstance(literal, ast.JoinedStr):
                        break


def _message(literal: ast.expr) -> str:
    """The text of a string, with X in place of each value."""
    if isinstance(literal, ast.JoinedStr):
        return "".join(map(_message, literal.values))
    if isinstance(literal, ast.Constant):
        return literal.value if isinstance(literal.value, str) else ""
    return "X"


def complaints(path: Path) -> Iterator[str]:
    """Yield one line for each phrase or long sentence of a file."""
    text = path.read_text(encoding="utf-8")
    passages = of_page(text) if path.suffix == ".md" else chain(of_source(text), of_messages(text))
    for line, kind, passage in passages:
        for where, pattern, remedy in phrases():
            if where == kind or (where == "all" and kind != "code"):
                for match in pattern.finditer(re.sub(r"\s+", " ", passage)):
                    yield f"{path}:{line}: {match[0].strip()!r}: {remedy}"
        for sentence in SENTENCES[kind].split(passage) if kind in SENTENCES else ():
            words = sum(any(map(str.isalnum, word)) for word in sentence.split())
            if words > LONGEST:
                start = " ".join(sentence.split()[:8])
                yield f"{path}:{line}: a sentence of {words} words: {start} ..."


def main() -> int:
    """Check the files and folders of the command line; return 1 if there is a complaint."""
    files: list[Path] = []
    for path in map(Path, sys.argv[1:]):
        files += sorted(path.rglob("*.[mp][dy]")) if path.is_dir() else [path]
    lines = [complaint for file in files for complaint in complaints(file)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
