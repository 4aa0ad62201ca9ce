"""A draft model of llama.cpp's."""

import pytest

from real_runs.servers.llama_cpp.cut_draft import cut_draft


@pytest.fixture(scope="session")
def cut(shipped, tmp_path_factory):
    """SmolLM2 without five of its layers, in a GGUF file."""
    return cut_draft(
        shipped, tmp_path_factory.mktemp("cut") / "draft.gguf", (*range(14), *range(19, 30))
    ).path
