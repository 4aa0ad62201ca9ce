"""Decoding that a grammar or another model constrains."""
