"""Run the races: ``python -m benchmarks [--quick] [--only product,gram] [--output FILE]``."""

from __future__ import annotations

from benchmarks import environment

if __name__ == "__main__":
    environment.enter()  # before NumPy and the contestants are loaded

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import fma, keops, report
from benchmarks.harness import Outcome, Settings
from benchmarks.races import (
    classifier,
    compositions,
    decomposition,
    features,
    gaussian_process,
    gradients,
    grams,
    growth,
    inference,
    landmarks,
    limits,
    machines,
    online,
    products,
    real_data,
    real_ridge,
    ridge,
    small,
    structured_graphs,
    structured_series,
    structured_strings,
    svm,
    threads,
)

GROUPS = {
    "product": products.races,
    "composition": compositions.races,
    "gram": grams.races,
    "gradient": gradients.races,
    "ridge": ridge.races,
    "gaussian_process": gaussian_process.races,
    "real_data": real_data.races,
    "classifier": classifier.races,
    "machine": machines.races,
    "svm": svm.races,
    "online": online.races,
    "landmarks": landmarks.races,
    "limits": limits.races,
    "growth": growth.races,
    "real_ridge": real_ridge.races,
    "features": features.races,
    "threads": threads.races,
    "small": small.races,
    "decomposition": decomposition.races,
    "structured_series": structured_series.races,
    "structured_graphs": structured_graphs.races,
    "structured_strings": structured_strings.races,
    "inference": inference.races,
}
BUSY = 0.5  # load average before the races begin
RESULTS = Path(__file__).with_name("results.json")


def main(arguments: Sequence[str] | None = None) -> None:
    """Race, print every outcome as it comes, then what docs/benchmarks.md can take."""
    options = _options(arguments)
    machine = environment.describe()
    print(_preamble(machine))
    outcomes = _race(options.only, Settings(options.quick))
    print(f"\n{report.summary(outcomes)}\n\n{report.markdown(outcomes)}")
    if options.output is not None:
        report.write_json(outcomes, machine, options.output)
        print(f"\nwritten to {options.output}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument(
        "--only", type=_groups, default=list(GROUPS), help=f"a choice of {','.join(GROUPS)}"
    )
    parser.add_argument("--output", type=Path, help="JSON file; results.json after a full run")
    options = parser.parse_args(arguments)
    if options.output is None and not options.quick and options.only == list(GROUPS):
        options.output = RESULTS
    return options


def _groups(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(GROUPS)}")
    return names


def _preamble(machine: dict[str, Any]) -> str:
    versions = machine["packages"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.2f}",
        ", ".join(f"{name} {version}" for name, version in versions.items() if version),
    ]
    if machine["load"] > BUSY:
        lines.append("the machine is busy with other work: these times are not to be quoted")
    if not keops.available():
        lines.append("KeOps is not installed: left out (pip install pykeops)")
    if not gaussian_process.available():
        lines.append("GPyTorch is not installed: left out (pip install gpytorch)")
    if not real_data.available():
        lines.append("MERCER_DATA is not set: real data are left out")
    if not machines.available():
        lines.append("OSQP is not installed: left out (pip install osqp)")
    missing = set(structured_series.PEERS) - set(structured_series.available())
    lines += [f"{peer} is not installed: left out (pip install {peer})" for peer in sorted(missing)]
    if not structured_graphs.available():
        lines.append("GraKeL is not installed: left out (pip install grakel)")
    if not structured_strings.has_strkernel():
        lines.append("strkernel is not installed: left out (pip install strkernel)")
    if not fma.available():
        lines.append("no C++ compiler: the share of FMA peak is left out")
    return "\n".join(lines)


def _race(names: Sequence[str], settings: Settings) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for name in names:
        print(f"\n{name}\n{report.heading()}")
        for outcome in GROUPS[name](settings):
            print(report.line(outcome), flush=True)
            outcomes.append(outcome)
    return outcomes


if __name__ == "__main__":
    main()
