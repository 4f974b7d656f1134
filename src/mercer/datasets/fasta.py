"""Sequences in FASTA files."""

from __future__ import annotations

import gzip
from os import PathLike
from pathlib import Path

from mercer.exceptions import DataError


def read_fasta(path: str | PathLike[str]) -> tuple[list[str], list[str]]:
    r"""Read the sequences of a FASTA file, gzipped or not.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    names : list of str
        The first word after ``>`` of each record.
    sequences : list of str
        The letters of each record, without line breaks and spaces.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import mercer as mc
    >>> file = pathlib.Path(tempfile.mkdtemp(), "two.fa")
    >>> _ = file.write_text(">first of two\nACG\nT\n>second\nGG\n")
    >>> mc.datasets.read_fasta(file)
    (['first', 'second'], ['ACGT', 'GG'])
    """
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    before, *records = ("\n" + text).replace("\r", "\n").split("\n>")
    if before.strip():
        raise DataError(
            f"read_fasta: {path} begins with {before.strip()[:30]!r}; a FASTA file begins with '>' "
            "and the name of a sequence."
        )
    heads = [record.partition("\n") for record in records]
    names = [(head.split() or [""])[0] for head, _, _ in heads]
    return names, ["".join(lines.split()) for _, _, lines in heads]
