"""FASTA files: names, letters, gzip, bad files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import mercer as mc
from mercer.exceptions import DataError

TEXT = ">sp|P1 first\nACG\nTT\n\n>second\r\nGG CC\r\n>\n>empty\n"
NAMES = ["sp|P1", "second", "", "empty"]
SEQUENCES = ["ACGTT", "GGCC", "", ""]


def test_names_and_sequences_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.fa"
    file.write_text(TEXT, newline="")
    assert mc.datasets.read_fasta(file) == (NAMES, SEQUENCES)
    assert mc.datasets.read_fasta(str(file)) == (NAMES, SEQUENCES)


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.fa.gz"
    file.write_bytes(gzip.compress(TEXT.encode()))
    names, sequences = mc.datasets.read_fasta(file)
    assert (names, sequences) == (NAMES, SEQUENCES)
    assert mc.Spectrum(2, alphabet="dna")(sequences).shape == (4, 4)


def test_an_empty_file_has_no_sequences(tmp_path: Path) -> None:
    file = tmp_path / "empty.fa"
    file.write_text("\n")
    assert mc.datasets.read_fasta(file) == ([], [])


def test_what_is_no_fasta_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("name,sequence\na,ACGT\n")
    with pytest.raises(DataError, match="begins with 'name,sequence"):
        mc.datasets.read_fasta(file)
