"""What each page of the dashboard shows: headline, cards and rows of one question."""
