"""Every form holds the tree that was written, as its own reader and as ours reads it."""

import ast
import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.exporters.registry import write_export
from app.exporters.tree_forms import TREE_FORMS, write_tree
from app.exporters.tree_paths import rank_paths
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.tree import Tree, read_tree

pytestmark = pytest.mark.heavy


@st.composite
def trees(draw, gaps=False):
    """A tree of at most thirty nodes; ranks without gaps unless asked for."""
    parents, ranks, children = [-1], [0], [0]
    for node in range(1, draw(st.integers(2, 30))):
        parent = draw(st.integers(0, node - 1))
        parents.append(parent)
        ranks.append(children[parent])
        children[parent] += draw(st.integers(1, 3)) if gaps else 1
        children.append(0)
    return Tree(parents=tuple(parents), ranks=tuple(ranks))


def read_back(tree, form, folder):
    (path,) = write_export(write_tree(tree, form), folder)
    return read_tree(path)


@given(trees(), st.sampled_from(sorted(set(TREE_FORMS) - {"vllm-tree"})))
def test_what_is_written_is_read_back(tmp_path_factory, tree, form):
    back = read_back(tree, form, tmp_path_factory.mktemp("forms"))
    assert rank_paths(back) == rank_paths(tree)


@given(trees(gaps=True))
def test_gaps_among_ranks_are_kept_or_refused(tree):
    for form, known in TREE_FORMS.items():
        if known.counts_children and not tree.is_sibling_closed:
            with pytest.raises(InputError, match=form):
                write_tree(tree, form)
    (text,) = write_tree(tree, "eagle-choices").files.values()
    assert tuple(map(tuple, ast.literal_eval(text))) == rank_paths(tree)


@given(trees())
def test_torch_reads_the_growmap_and_its_parts_agree(tree):
    torch = pytest.importorskip("torch")
    (content,) = write_tree(tree, "sequoia-growmap").files.values()
    found = torch.load(io.BytesIO(content), weights_only=True)
    assert found["size"] == tree.nodes == len(found["Successors"])
    mask, depth = found["mask"], found["depth"]
    assert mask.dtype == depth.dtype == torch.int64
    # a node sees itself and its ancestors: one more than its level
    assert (mask.sum(dim=1) == depth + 1).all() and (mask.diagonal() == 1).all()
    assert [node for level in found["roots"] for node in level] == list(range(tree.nodes))
    for level, counts in zip(found["roots"], found["branches"], strict=True):
        assert counts == [len(found["Successors"][node]) for node in level]
    assert sum(map(sum, found["branches"])) == tree.draft_tokens


def test_growmaps_that_torch_wrote_are_read(tmp_path, binary_tree):
    torch = pytest.importorskip("torch")
    (content,) = write_tree(binary_tree, "sequoia-growmap").files.values()
    found = torch.load(io.BytesIO(content), weights_only=True)
    torch.save(found, tmp_path / "theirs.pt")
    assert rank_paths(read_tree(tmp_path / "theirs.pt")) == rank_paths(binary_tree)


@pytest.mark.parametrize("form", sorted(set(TREE_FORMS) - {"vllm-tree"}))
def test_published_trees_survive_every_form(published, form, tmp_path):
    trees = json.loads((published / "trees.json").read_text())
    for name, paths in trees.items():
        tree = Tree.from_paths(sorted(map(tuple, paths), key=lambda path: (len(path), path)))
        back = read_back(tree, form, tmp_path / name)
        assert rank_paths(back) == rank_paths(tree), name
        assert back.draft_tokens == len(paths), name


def test_vllm_trees_hold_level_uniform_trees_alone(binary_tree, lopsided_tree, tmp_path):
    (text,) = write_tree(binary_tree, "vllm-tree").files.values()
    assert ast.literal_eval(text.strip()) == list(rank_paths(binary_tree))
    assert read_back(binary_tree, "vllm-tree", tmp_path) == binary_tree
    with pytest.raises(InputError, match="same number of children"):
        write_tree(lopsided_tree, "vllm-tree")


def test_one_of_several_trees_in_a_python_file_is_named(tmp_path):
    path = tmp_path / "choices.py"
    path.write_text("import os\nsmall = [[0], [0, 0]]\nlarge = [(0,), (1,), (0, 0)]\n")
    assert read_tree(f"{path}:small").draft_tokens == 2
    assert read_tree(f"{path}:large").draft_tokens == 3
    with pytest.raises(InputError, match="one of large, small"):
        read_tree(path)
    with pytest.raises(InputError, match="of that name"):
        read_tree(f"{path}:other")


def test_nothing_in_a_file_is_run(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "evil.py"
    path.write_text("choices = [[__import__('os').system('touch ran')]]\n")
    with pytest.raises(InputError, match="numbers alone"):
        read_tree(path)
    torch.save({"Successors": [[1], []], "extra": torch.nn.Linear(1, 1)}, tmp_path / "evil.pt")
    with pytest.raises(InputError, match="more than lists"):
        read_tree(tmp_path / "evil.pt")


@given(st.data(), st.sampled_from(["sequoia-growmap", "medusa-choices", "samd-json"]))
def test_a_damaged_file_is_a_tree_or_an_error_of_one_line(tmp_path_factory, data, form):
    """Bytes changed, cut out or put in, inside the growmap's pickle as well as around it."""
    tree = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0)])
    ((name, content),) = write_tree(tree, form).files.items()
    damaged = bytearray(content if isinstance(content, bytes) else content.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged) - 1))
        damaged[start : start + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    if form == "sequoia-growmap" and data.draw(st.booleans()):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("growmap/data.pkl", bytes(damaged[64:600]))
        damaged = packed.getvalue()
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(damaged)
    try:
        assert read_tree(path).draft_tokens >= 0
    except InputError as error:
        assert str(error).count("\n") == 0


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("a.json", b'{"0": [1, 2], "1": [2], "2": []}', "one parent"),
        ("a.json", b'{"0": [1], "1": [], "5": [6]}', "below node 0"),
        ("a.json", b'{"0": {"1": 2}}', "whole numbers"),
        ("a.pt", b"PK\x03\x04 and no archive", "torch.save"),
        ("a.py", b"x = 3\n", "no list"),
        ("a.py", b"((((", "as Python writes it"),
        ("a.py", b"x = " + b"[" * 5000, "as Python writes it"),
    ],
)
def test_files_that_hold_no_tree_say_so(tmp_path, name, content, rule):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rule) as caught:
        read_tree(tmp_path / name)
    assert caught.value.file == str(tmp_path / name)


def test_unknown_forms_and_empty_trees_are_refused(binary_tree):
    with pytest.raises(UnknownNameError, match="medusa-choices"):
        write_tree(binary_tree, "medusa")
    with pytest.raises(InputError, match="at least one"):
        write_tree(Tree(parents=(-1,), ranks=(0,)), "eagle-choices")
