"""Kernel machines of any convex loss."""
