"""Trees drafted by a model of its own."""
