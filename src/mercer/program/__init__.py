"""Kernels as small programs: expressions, their adjoints, and the executors that run them."""
