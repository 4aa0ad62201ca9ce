"""Traces as Parquet files."""
