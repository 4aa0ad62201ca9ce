"""A small masked-diffusion language model: its shape, its text, its training."""
