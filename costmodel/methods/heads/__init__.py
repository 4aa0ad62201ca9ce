"""Heads trained on the target: several output heads, or a layer that predicts later tokens."""
