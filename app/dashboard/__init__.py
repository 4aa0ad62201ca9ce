"""The what-if dashboard: pages of numbers and charts in a browser, every one a link that can be
shared.
"""
