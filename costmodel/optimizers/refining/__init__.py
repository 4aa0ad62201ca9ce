"""Which policy should a masked decoder run: the grid of those worth trying, and the search over
it.
"""
