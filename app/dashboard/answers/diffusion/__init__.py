"""Masked diffusion: the page's answer, its front of speed and agreement, and the recordings that it
can replay.
"""
