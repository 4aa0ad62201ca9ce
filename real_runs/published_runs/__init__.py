"""What is known of published serving runs that their tables leave out?"""

AS_PUBLISHED = "as-published"
"""The launch of a table whose rows are to be named by what is known of their publishers."""
