"""Several devices for one request, and how prompts and decoding share them."""
