"""A choice to start from, trees to hang on it, and the batch sizes that a schedule is checked on."""

import pytest

from app.exporters.choice import DecodingChoice

DRAFTED_BY_A_MODEL = {"draft_model", "medusa", "eagle3", "sequoia"}


@pytest.fixture(scope="session")
def build():
    """Make a choice: an EAGLE-3 chain of five tokens unless told otherwise."""

    def make(method="eagle3", **changes):
        settings = {"model": "meta-llama/Llama-3.1-8B", "context": 1024, "method": method, "draft_tokens": 5}
        if method in DRAFTED_BY_A_MODEL:
            settings["draft_model"] = "drafts/head"
        if method == "early_exit":
            settings["exit_layers"] = 10
        if method == "plain":
            settings["draft_tokens"] = 0
        settings |= changes
        if "schedule" in changes and "draft_tokens" not in changes:
            settings["draft_tokens"] = max(entry[2] for entry in changes["schedule"])
        if "tree" in changes:
            settings["draft_tokens"] = len(changes["tree"]["parents"]) - 1
        drafted = "chain" if "tree" not in changes else "tree"
        settings.setdefault("topology", drafted if settings["draft_tokens"] else "off")
        return DecodingChoice(**settings)

    return make


@pytest.fixture(scope="session")
def tree_of():
    """Make a tree from rank paths, root excluded; every prefix must be among them."""

    def make(paths):
        ordered = [(), *sorted(map(tuple, paths), key=lambda path: (len(path), path))]
        return {
            "parents": [-1, *(ordered.index(path[:-1]) for path in ordered[1:])],
            "ranks": [0, *(path[-1] for path in ordered[1:])],
            "root_included": True,
        }

    return make


@pytest.fixture(scope="session")
def binary_tree(tree_of):
    """Two children at each of two levels: six draft nodes, level-uniform."""
    return tree_of([(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)])


@pytest.fixture(scope="session")
def lopsided_tree(tree_of):
    """A tree in which siblings have different numbers of children: five draft nodes, three levels."""
    return tree_of([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])
