"""Verbs that run on this machine: record, time kernels, calibrate, validate, and say what would
run.
"""
