"""A prompt file of two prompts that quote themselves, for recordings in seconds."""

PROMPTS = """
title = "two"
[[prompts]]
id = "a"
kind = "short"
text = "abc abc abc"
[[prompts]]
id = "b"
kind = "long"
text = "one two three, one two three, one two four"
"""
