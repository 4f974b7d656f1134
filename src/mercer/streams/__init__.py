"""Rows that are not all in memory: files, streams of blocks, Dask collections.

- `blocks`: what a block is, and sources of blocks that can be read any number of times;
- `joining`: small blocks joined with those that follow;
- `spool`: an iterator is written to a temporary file while it is read for the first time;
- `files`: Parquet and CSV files in blocks;
- `dask`: Dask arrays and data frames, whose chunks are read where they are;
- `sources`: which of these the user passed;
- `schema`: columns and types that all blocks have in common;
- `targets`: targets in blocks, as numbers or as classes;
- `survey`: the first pass, which checks every block, and how later passes read blocks;
- `stream_rows`: all of these as the `RowSource` of solvers.
"""

from __future__ import annotations

from mercer.streams.blocks import Blocks
from mercer.streams.files import read_blocks

__all__ = ["Blocks", "read_blocks"]
