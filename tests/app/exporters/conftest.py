"""A choice to start from, trees to hang on it, and the batch sizes that a schedule is checked
on."""

import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method_library import load_method
from traces.kinds.tree import Tree

SLUGS = {
    "draft_model": "speculative-decoding",
    "ngram": "n-gram",
    "eagle3": "eagle-3",
    "early_exit": "early-exit",
    "suffix": "suffix-decoding",
    "suffix_automaton": "sam-decoding",
    "plain": "plain-decoding",
}


@pytest.fixture(scope="session")
def build():
    """Make a configuration: an EAGLE-3 chain of five tokens unless arguments say otherwise."""

    def make(method="eagle-3", *, model="", tensor_parallel=1, tree=None, **changes):
        method = SLUGS.get(method, method)
        record = load_method(method)
        # layers that predict several tokens are those of a checkpoint that holds some
        model = model or (
            "deepseek-ai/DeepSeek-V3"
            if record.drafts_with_target_layers
            else "meta-llama/Llama-3.1-8B"
        )
        settings = {"context": 1024, "method": method, "draft_tokens": 5 if record.drafts else 0}
        if record.needs_trained_weights:
            settings["draft_model"] = "drafts/head"
        if record.exits_early:
            settings["exit_layers"] = 10
        if "schedule" in changes:
            settings["draft_tokens"] = max(entry[2] for entry in changes["schedule"])
        if tree is not None:
            settings |= {"draft_tokens": tree.draft_tokens, "shape": tree}
        where = DeploymentNames(model=model, tensor_parallel=tensor_parallel)
        return DecodingConfiguration(**({"deployment": where} | settings | changes))

    return make


@pytest.fixture(scope="session")
def tree_of():
    """Make a tree from rank paths, root excluded; every prefix must be among them."""
    return Tree.from_paths


@pytest.fixture(scope="session")
def binary_tree(tree_of):
    """Two children at each of two levels: six draft nodes, level-uniform."""
    return tree_of([(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)])


@pytest.fixture(scope="session")
def lopsided_tree(tree_of):
    """A tree in which siblings have different numbers of children: five draft nodes, three
    levels."""
    return tree_of([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])
