"""Discriminant analysis in feature space."""
