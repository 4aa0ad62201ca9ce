"""Runs on real devices: recording, calibration, validation. The only package that imports torch."""
