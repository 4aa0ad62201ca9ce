"""Kinds of traces as values in memory."""
