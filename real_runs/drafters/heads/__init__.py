"""Trained draft heads: their layers, training and storage."""
