"""Gaussian processes: regression and classification."""
