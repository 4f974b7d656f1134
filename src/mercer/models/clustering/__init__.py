"""Clusters in feature space, and rows that are far from all others."""
