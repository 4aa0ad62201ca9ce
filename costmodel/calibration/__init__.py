"""How well does a device profile time measured kernels, and which constants would time them
best?
"""
