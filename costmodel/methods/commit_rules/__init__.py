"""Masked blocks: which tokens a pass commits."""
