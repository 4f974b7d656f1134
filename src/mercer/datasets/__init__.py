"""Readers of files in which data sets are published."""

from mercer.datasets.fasta import read_fasta
from mercer.datasets.graphs import read_tu

__all__ = ["read_fasta", "read_tu"]
