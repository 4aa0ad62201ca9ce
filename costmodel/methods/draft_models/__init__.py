"""Drafts by a model of its own."""
