"""Local regression: weights by nearness."""
