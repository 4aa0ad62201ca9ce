"""Benchmarks, surveys and arguments, listed for completeness."""
