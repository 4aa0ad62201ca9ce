"""What was fitted to measurements beside constants: intervals, their regimes, corrections, and
narrower formats.
"""
