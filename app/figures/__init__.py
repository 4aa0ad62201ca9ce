"""Charts as plain data."""
