"""Weights that were never trained."""

import hashlib

import torch

from real_runs.models.loading.weights import LoadedWeights, expected_shapes


def random_weights(config, *, seed=0, scale=0.02):
    """Normal weights of a model's shapes, and norms of one."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.ones(shape)
        if len(shape) == 1 and "norm" in name
        else torch.randn(shape, generator=generator) * scale
        for name, shape in expected_shapes(config).items()
    }
    digest = hashlib.sha256(f"random seed={seed} scale={scale} {config}".encode()).hexdigest()
    return LoadedWeights(config=config, tensors=tensors, sha256=digest)
