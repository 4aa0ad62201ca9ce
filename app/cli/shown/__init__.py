"""How answers read on the screen: one module for each verb whose tables and sentences need more
than a few lines.
"""
