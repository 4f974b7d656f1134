"""Directions in feature space: principal components and canonical correlations."""
