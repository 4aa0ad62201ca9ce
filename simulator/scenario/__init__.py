"""Scenarios as people write them, and how they become a workload and engines."""
