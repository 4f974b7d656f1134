"""Smooth losses by Newton's method: over all rows, landmarks or features."""
