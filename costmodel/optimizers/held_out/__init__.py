"""Does what was chosen on one half of a recording hold on the other: trees, and whole decoding
policies?
"""
