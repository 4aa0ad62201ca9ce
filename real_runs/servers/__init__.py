"""How is a live serving engine launched, asked, loaded, observed and measured over its network
address?
"""
