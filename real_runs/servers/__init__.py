"""Engines that serve: their addresses, what is asked of them and what they count."""
