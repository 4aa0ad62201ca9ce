"""What goes into the next iteration: who is next, who holds which blocks, and into which passes is
it split?
"""
