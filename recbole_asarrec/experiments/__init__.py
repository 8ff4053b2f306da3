"""The laboratory: one run, grids of runs, tuning, and what their results say."""
