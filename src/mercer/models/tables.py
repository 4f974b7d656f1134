"""Tables of results: as text, in notebooks, and as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mercer.exceptions import MissingDependencyError


def number(value: float | None, digits: int = 4) -> str:
    """A number with a few digits; nothing for None and NaN."""
    return "" if value is None or value != value else f"{value:.{digits}g}"


def as_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text: the first column to the left, the others to the right."""
    table = [header, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table
    )
    return "\n".join(line.rstrip() for line in lines)


def as_html(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table for notebooks."""
    head = "".join(f"<th>{escape(entry)}</th>" for entry in header)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>"
        + "".join(f"<td>{escape(entry)}</td>" for entry in row[1:])
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_frame(owner: str, columns: Mapping[str, Any], index: Any = None) -> Any:
    """A data frame of pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependencyError(
            f"{owner}.to_frame needs pandas, which cannot be imported ({error}); install it with "
            "`pip install pandas`, or read the attributes."
        ) from error
    return pd.DataFrame(dict(columns), index=index)
