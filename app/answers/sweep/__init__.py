"""Every cell of a product of models, devices, engines, drafters, batches and contexts."""
