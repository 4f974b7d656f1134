"""Linear algebra: arrays in, arrays out, nothing of kernels or estimators."""
