"""How do other programs keep a static tree? One function per form, each the counterpart of what
`read_tree` reads.

Forms differ in what they can hold: some name only how many children a node has, so that ranks must
count up from 0.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.exporters.result import ExportResult
from app.exporters.tree_paths import children_by_level, rank_paths
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.tree import Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeForm:
    """A file that holds one static tree.

    Args:
        file: its name.
        write: its content, of a tree whose nodes stand level by level in rank order.
        counts_children: nodes have a number of children, not ranks of their own.
        reader: who loads it.
    """

    file: str
    write: Callable[[Tree], str | bytes]
    counts_children: bool
    reader: str


def write_tree(tree: Tree, form: str) -> ExportResult:
    r"""A static tree in the form of another program.

    Example:
        >>> from traces.kinds.tree import Tree
        >>> write_tree(Tree.from_paths([(0,), (1,), (0, 0)]), "medusa-choices").files
        {'medusa_choices.py': 'choices = [[0], [1], [0, 0]]\n'}

    Args:
        tree: any static tree with at least one draft token.
        form: a name in `TREE_FORMS`.

    Raises:
        UnknownNameError: no such form.
        InputError: the form cannot hold the tree; names form, rule and value.
    """
    if form not in TREE_FORMS:
        raise UnknownNameError("tree form", form, TREE_FORMS, key="form")
    tree_form = TREE_FORMS[form]
    if not tree.draft_tokens:
        raise InputError(
            f"{form}: holds at least one draft token", key="tree", value=tree.draft_tokens
        )
    if tree_form.counts_children and not tree.is_sibling_closed:
        rule = f"{form}: the children of a node must have the ranks 0, 1, ... without a gap"
        raise InputError(rule, key="tree", value=list(rank_paths(tree)))
    ordered = Tree.from_paths(rank_paths(tree))
    return ExportResult(
        engine=form,
        version="",
        checked_against=(),
        files={tree_form.file: tree_form.write(ordered)},
        command="",
        notes=(f"loaded by {tree_form.reader}",),
    )


def token_tree(paths: Sequence[tuple[int, ...]]) -> str | None:
    """The `speculative_token_tree` of vLLM 0.9 to 0.20, which keeps the number of nodes per level
    alone.

    Args:
        paths: rank paths, the root left out.

    Returns:
        None where nodes of a level differ in their number of children, which that string cannot
        say.
    """
    return None if children_by_level(paths) is None else str(list(paths))


def _token_tree(tree: Tree) -> str:
    spelled = token_tree(rank_paths(tree))
    if spelled is None:
        rule = (
            "vllm-tree: every node of a level must have the same number of children, ranked from 0"
        )
        raise InputError(rule, key="tree", value=list(rank_paths(tree)))
    return spelled + "\n"


def _lists(tree: Tree) -> str:
    return str([list(path) for path in rank_paths(tree)])


def _children(tree: Tree) -> list[list[int]]:
    below: list[list[int]] = [[] for _ in tree.parents]
    for node, parent in enumerate(tree.parents[1:], start=1):
        below[parent].append(node)
    return below


def _samd(tree: Tree) -> str:
    return json.dumps({str(node): below for node, below in enumerate(_children(tree))}) + "\n"


def _growmap(tree: Tree) -> bytes:
    """Sequoia's dictionary: nodes and their numbers of children by level, children, ancestors,
    levels and size.
    """
    levels, below = tree.node_levels().tolist(), _children(tree)
    roots = [
        [node for node, at in enumerate(levels) if at == level] for level in range(max(levels) + 1)
    ]
    mask: list[list[int]] = []
    for node, parent in enumerate(tree.parents):
        row = list(mask[parent]) if node else [0] * tree.nodes
        row[node] = 1
        mask.append(row)
    flat = [number for row in mask for number in row]
    content = {
        "roots": roots,
        "branches": [[len(below[node]) for node in level] for level in roots],
        "Successors": below,
        "mask": _Tensor(values=flat, shape=(tree.nodes, tree.nodes)),
        "depth": _Tensor(values=levels, shape=(tree.nodes,)),
        "size": tree.nodes,
    }
    return _torch_file(content)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tensor:
    values: list[int]
    shape: tuple[int, ...]


def _torch_file(content: Mapping[str, object]) -> bytes:
    """A dictionary of lists, numbers and tensors of whole numbers, as
    `torch.load(weights_only=True)` reads it.
    """
    tensors: list[_Tensor] = []
    pickled = b"\x80\x02" + _pickled(dict(content), tensors) + b"."
    records = {"data.pkl": pickled, "byteorder": b"little"}
    records |= {
        f"data/{at}": struct.pack(f"<{len(t.values)}q", *t.values) for at, t in enumerate(tensors)
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, record in (records | {"version": b"3\n"}).items():
            archive.writestr(zipfile.ZipInfo(f"growmap/{name}"), record)
    return stream.getvalue()


def _pickled(value: object, tensors: list[_Tensor]) -> bytes:
    """Instructions of pickle protocol 2 that build a value."""
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, str):
        text = value.encode()
        return b"X" + struct.pack("<I", len(text)) + text
    if isinstance(value, list):
        return b"](" + b"".join(_pickled(item, tensors) for item in value) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(_pickled(item, tensors) for item in value) + b"t"
    if isinstance(value, dict):
        return (
            b"}("
            + b"".join(_pickled(part, tensors) for item in value.items() for part in item)
            + b"u"
        )
    if not isinstance(value, _Tensor):
        raise TypeError(type(value).__name__)
    tensors.append(value)
    strides = (value.shape[1], 1) if len(value.shape) > 1 else (1,)
    storage = b"(" + _pickled("storage", tensors) + b"ctorch\nLongStorage\n"
    storage += (
        b"".join(
            _pickled(item, tensors) for item in (str(len(tensors) - 1), "cpu", len(value.values))
        )
        + b"tQ"
    )
    sizes = _pickled(0, tensors) + _pickled(value.shape, tensors) + _pickled(strides, tensors)
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + sizes
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


TREE_FORMS: Mapping[str, TreeForm] = {
    "medusa-choices": TreeForm(
        file="medusa_choices.py",
        write=lambda tree: f"choices = {_lists(tree)}\n",
        counts_children=False,
        reader="Medusa, Hydra and Token Recycling, as a list in Python",
    ),
    "eagle-choices": TreeForm(
        file="eagle_choices.txt",
        write=lambda tree: _lists(tree) + "\n",
        counts_children=False,
        reader="EAGLE-1, and TensorRT-LLM before 1.4 as eagle_choices",
    ),
    "sequoia-growmap": TreeForm(
        file="growmap.pt", write=_growmap, counts_children=True, reader="Sequoia, by torch.load"
    ),
    "vllm-tree": TreeForm(
        file="speculative_token_tree.txt",
        write=_token_tree,
        counts_children=True,
        reader="vLLM 0.9 to 0.20 as speculative_token_tree",
    ),
    "samd-json": TreeForm(
        file="samd_tree.json",
        write=_samd,
        counts_children=True,
        reader="SAM-Decoding, as its tree file",
    ),
}
