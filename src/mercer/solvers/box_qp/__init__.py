"""Dual problems of support vector machines: quadratic programs with box constraints."""
