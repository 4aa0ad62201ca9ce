"""Engines that serve: their addresses, what is asked of them and what they count."""
"""How is a live serving engine asked, loaded, observed and measured over its network address?"""
