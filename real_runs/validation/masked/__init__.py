"""Commit rules, blocks and caches of the small masked model, run live beside their predictions."""
