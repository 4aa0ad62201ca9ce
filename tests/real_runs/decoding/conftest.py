"""Readers over a tiny model, and a model so small that whole distributions can be summed."""

import pytest
import torch

from real_runs.decoding.tree_speculative import EarlyExitReader
from real_runs.drafters.bridge_fit import fit_bridge
from real_runs.drafters.layer_skip import GapLlama, LayerSkip, fit_gap
from real_runs.models.bridge import Bridge
from real_runs.models.config import LlamaConfig
from real_runs.models.llama import Llama
from tests.real_runs.random_weights import random_weights


@pytest.fixture(scope="session")
def tiny_bridge(tiny_model):
    sequences = torch.randint(0, 97, (30, 60), generator=torch.Generator().manual_seed(8)).tolist()
    return fit_bridge(tiny_model, sequences, exit_layer=3, ridge=1e-3)


@pytest.fixture(scope="session")
def readers(tiny_model, tiny_bridge):
    sequences = torch.randint(0, 97, (30, 60), generator=torch.Generator().manual_seed(8)).tolist()
    across = fit_gap(tiny_model, sequences, start=1, stop=2, ridge=1e-3)
    return {
        "early exit": EarlyExitReader(tiny_model, tiny_bridge),
        "layer skip": LayerSkip(GapLlama(tiny_model, start=1, stop=2, bridge=across)),
    }


@pytest.fixture(scope="session")
def atom_model():
    """Two layers, eight tokens, none of which ends a text."""
    config = LlamaConfig(
        vocabulary=8, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, ffn_width=16
    )
    return Llama(random_weights(config, seed=2, scale=0.45))


@pytest.fixture(scope="session")
def atom_reader(atom_model):
    """Its first layer alone, read as it is: a drafter that is often wrong."""
    bridge = Bridge(exit_layer=1, weight=torch.eye(16), bias=torch.zeros(16))
    return EarlyExitReader(atom_model, bridge)
