"""Kernels of time series: alignments and signatures."""
