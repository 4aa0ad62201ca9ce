"""Files that a session is given: read in a process of their own, and held while the session
lasts.
"""
