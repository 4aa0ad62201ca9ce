"""Answers about one configuration: step time, speed, memory, explanations, break-evens,
capacity.
"""
