"""Answers as standalone pages."""
