"""How far answers were off: published runs on GPUs, our runs, live servers and masked models."""
