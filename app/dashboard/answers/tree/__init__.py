"""The tree explorer: the page's answer, and trees that systems published."""
