"""What do users see who keep an engine busy, and what do those of every row of a table of serving
runs see?
"""
