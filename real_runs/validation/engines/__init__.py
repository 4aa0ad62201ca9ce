"""Engines that are not ours beside our predictions: assisted generation in Transformers, benchmark
files of servers.
"""
