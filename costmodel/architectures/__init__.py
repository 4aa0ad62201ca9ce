"""What a model computes: layers, widths, experts, caches, read from configs or shipped by name."""
