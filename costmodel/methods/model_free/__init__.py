"""Drafts without a network: text that was seen, or rows that ride on the verify pass."""
