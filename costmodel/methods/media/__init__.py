"""Tokens of images, sound and motion, in parallel."""
