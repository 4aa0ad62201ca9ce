"""Drafts by the target itself, with some of its layers or of its cache."""
