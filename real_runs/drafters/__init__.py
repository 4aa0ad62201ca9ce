"""Real-run drafters."""
