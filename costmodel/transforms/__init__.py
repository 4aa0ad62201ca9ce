"""What do compression, sparse attention and skipped layers change in the cost of a pass?"""
