"""Exporters: a chosen configuration in the form an engine loads."""
