"""Real-run models."""
