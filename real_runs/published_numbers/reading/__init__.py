"""What do the words of a table of published numbers mean?"""
