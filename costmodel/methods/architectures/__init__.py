"""Models that are built differently."""
