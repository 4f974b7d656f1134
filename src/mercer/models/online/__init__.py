"""Models that learn row by row."""
