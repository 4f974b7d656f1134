"""Piecewise linear losses: exact solutions with a duality gap."""
