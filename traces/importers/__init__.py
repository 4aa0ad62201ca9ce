"""Importers: files of engines and benchmarks to acceptance traces, one module per source."""
