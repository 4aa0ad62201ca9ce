"""Rooftree's own loops run live beside their predictions."""
