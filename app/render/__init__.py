"""How does an answer look in text, CSV, JSON, data frames, pages and charts?"""
