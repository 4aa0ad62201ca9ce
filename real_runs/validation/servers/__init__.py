"""How far are predictions from what a serving engine does: one that is started here, or one that
somebody runs?
"""
