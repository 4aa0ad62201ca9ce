"""Layers that some tokens leave out."""
