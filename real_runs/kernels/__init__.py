"""Timing of single kernels on any torch device: what runs, how long, and whether it is right."""
