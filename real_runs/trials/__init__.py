"""Runs of things that decode, made in turn and kept as they are finished."""
