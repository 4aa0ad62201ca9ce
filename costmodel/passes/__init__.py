"""One forward pass of one model: operations, kernels, memory."""
