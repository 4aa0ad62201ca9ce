"""Predicted beside measured: real decoding of configurations that were chosen, and of others."""
