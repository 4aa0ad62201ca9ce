"""How is the question asked: the bar over every page, its widgets and their help."""
