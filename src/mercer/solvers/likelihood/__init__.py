"""Likelihoods of Gaussian processes, exact and approximate, and their maximisation."""
