"""What was fitted to measurements: constants of operations, intervals, their regimes, corrections,
and constants of narrower formats.
"""
