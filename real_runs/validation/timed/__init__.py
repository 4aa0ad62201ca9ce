"""Loops whose steps a recording timed, beside their predictions."""
