"""Decoding of masked blocks."""
