"""Several tokens of one sequence refined or decoded together."""
