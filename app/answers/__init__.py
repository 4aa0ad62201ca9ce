"""What a verb or a page answers, as plain data."""
