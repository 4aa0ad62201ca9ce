"""One module per serving engine, `ENGINE` in each: all that is known of it, every number once, with
its source.
"""
