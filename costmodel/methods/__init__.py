"""Published decoding systems, one file each, data only."""
