"""Outcomes as lines of a terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import Outcome

_HEADINGS = ("race", "parameters", "threads", "mercer", "peer", "", "figure", "required", "met")
_WIDTHS = (41, 57, 7, 13, 13, 17, 9, 9, 7)


def heading() -> str:
    """The first line of the table."""
    return _aligned(_HEADINGS)


def line(outcome: Outcome) -> str:
    """One outcome in a terminal."""
    text = _aligned(_cells(outcome))
    return f"{text}  {outcome.note}".rstrip()


def markdown(outcomes: Sequence[Outcome]) -> str:
    """All outcomes as a Markdown table."""
    headings = list(_HEADINGS)
    headings[5] = "peer's name"
    rows = [headings, ["---"] * len(headings), *(_cells(o) for o in outcomes)]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows)


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many targets were met, and which were not."""
    judged = [o for o in outcomes if o.met is not None]
    missed = [o for o in judged if not o.met]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} targets met."]
    lines += [f"  not met: {_sentence(o)}" for o in missed]
    return "\n".join(lines)


def write_json(outcomes: Sequence[Outcome], machine: dict[str, Any], target: Path) -> None:
    """Write everything measured."""
    results = [asdict(o) | {"met": o.met} for o in outcomes]
    text = json.dumps({"machine": machine, "results": results}, indent=1)
    target.write_text(f"{text}\n")


def _cells(outcome: Outcome) -> tuple[str, ...]:
    met = {True: "met", False: "NOT MET", None: ""}[outcome.met]
    return (
        outcome.race,
        outcome.parameters,
        str(outcome.threads),
        _quantity(outcome.mercer, outcome.unit),
        _quantity(outcome.peer, outcome.unit),
        outcome.peer_name,
        _figure(outcome.figure, outcome.figure_unit),
        _required(outcome),
        met,
    )


def _sentence(outcome: Outcome) -> str:
    figure = _figure(outcome.figure, outcome.figure_unit)
    return (
        f"{outcome.race}, {outcome.parameters}, {outcome.peer_name}: {figure}, {_required(outcome)}"
    )


def _required(outcome: Outcome) -> str:
    if outcome.target is None:
        return ""
    sign = ">=" if outcome.target.at_least else "<="
    return f"{sign} {outcome.target.bound:g}{_suffix(outcome.figure_unit)}"


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s" and value < 0.1:
        return f"{1e6 * value:.1f} µs" if value < 1e-3 else f"{1e3 * value:.1f} ms"
    return f"{value:.3g} {unit}" if value < 1e3 else f"{value:.0f} {unit}"


def _figure(value: float, unit: str) -> str:
    size = abs(value)
    digits = 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0
    return f"{value:.{digits}f}{_suffix(unit)}"


def _suffix(unit: str) -> str:
    return unit if unit in ("x", "%") else f" {unit}"


def _aligned(cells: Sequence[str]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("*", "\\*")
