"""Recording acceptance traces from real models."""
