"""Data wherever they are: blocks of rows, and sums over them."""
