"""Least squares: one regularisation, or a path of them."""
