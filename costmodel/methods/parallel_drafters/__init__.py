"""Drafters that propose all of their tokens in one pass or a few."""
