"""What would the cost model have said of a published number, from the inputs that stand beside
it?
"""
