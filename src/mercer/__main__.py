"""Run the command line with ``python -m mercer``."""

from __future__ import annotations

from mercer.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
