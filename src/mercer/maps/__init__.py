"""Feature maps in closed form: monomials, and maps of sums and products."""
