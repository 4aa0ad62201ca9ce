"""Compressed weights and caches, sparse attention."""
