"""How far off are the answers of a table of serving runs from what was measured, where, and through
what?
"""
