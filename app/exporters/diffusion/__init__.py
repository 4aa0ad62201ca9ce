"""Exports of configurations that decode masked blocks."""
