"""What do an engine's counters tell of each draft length: is that enough to change it, and what
should run next?
"""
