"""What trees emit within a budget, how fast they are, and how a batch shares nodes, as rows."""
