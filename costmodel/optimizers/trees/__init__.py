"""Which tree of draft tokens is best for stated acceptance, or for a recording?"""
