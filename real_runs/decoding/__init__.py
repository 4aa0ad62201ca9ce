"""Real-run decoding."""
