"""Campaigns: declared lists of measurements with a budget, and their results."""
