"""Hugging Face configurations as architectures."""
