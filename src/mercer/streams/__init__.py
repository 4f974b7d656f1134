"""Rows that are not all in memory: files, streams of blocks, Dask collections.

- `blocks`: what a block is, and sources of blocks that can be gone through again and again;
- `joining`: small blocks joined with those that follow;
- `spool`: what can be gone through once is written to a temporary file on the way;
- `files`: Parquet and CSV in blocks;
- `directories`: which files these are, and columns that directories are;
- `dask`: Dask arrays and data frames, whose chunks are read where they are;
- `schema`: what all blocks have in common;
- `labels`: targets in blocks, as numbers or as classes;
- `rows`: all of these as the rows of which solvers ask totals;
- `application`: methods of fitted models, block by block.
"""

from __future__ import annotations

from mercer.streams.blocks import Blocks
from mercer.streams.files import read_blocks

__all__ = ["Blocks", "read_blocks"]
