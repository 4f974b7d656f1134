"""The races: one file for each group, each with a function `races`."""
