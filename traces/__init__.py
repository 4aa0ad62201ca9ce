"""Recorded decoding traces: schema, storage, exact replay and statistics."""
