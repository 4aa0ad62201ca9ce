"""Decoding of masked canvases by a live model."""
