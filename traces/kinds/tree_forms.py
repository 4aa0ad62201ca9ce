"""How do other programs write a static tree to a file?

Medusa, EAGLE and Hydra keep lists of rank paths in Python files, and Sequoia a growmap saved by
torch. Both become plain values, which `traces.kinds.tree` checks; what JSON holds is read there.
Nothing is run: a Python file is parsed as text, and of a growmap's pickle the instructions are
read, and those that would build anything else are refused.
"""

from __future__ import annotations

import ast
import io
import pickletools
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from hardware_profiles.errors import InputError

MOST_LITERAL_BYTES = 1 << 20
MOST_PICKLE_BYTES = 4 << 20


def paths_of_literal(text: str, name: str = "") -> object:
    """The list of paths that a Python file or a list in a text holds.

    Args:
        text: one list, or assignments of lists to names.
        name: which of several names.

    Returns:
        The list as it stands, to be checked by whoever reads it.

    Raises:
        InputError: too long, no such list, or several and none named.

    >>> paths_of_literal("small = [[0], [1], [0, 0]]")
    [[0], [1], [0, 0]]
    """
    if len(text) > MOST_LITERAL_BYTES:
        raise InputError(f"must not exceed {MOST_LITERAL_BYTES} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError("must be a list of rank paths, as Python writes it") from None
    lists = {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if len(body) == 1 and isinstance(body[0], ast.Expr):
        lists = {name: body[0].value}  # type: ignore[dict-item]
    if not lists or (name and name not in lists):
        raise InputError(
            "holds no list of rank paths" + (" of that name" if name else ""), key=name or None
        )
    if not name and len(lists) > 1:
        raise InputError(f"holds several trees; add :NAME, one of {', '.join(sorted(lists)[:20])}")
    try:
        return ast.literal_eval(lists[name] if name else next(iter(lists.values())))
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise InputError("must hold numbers alone") from None


def growmap_values(content: bytes) -> dict[Any, Any]:
    """The plain values of a Sequoia growmap as `torch.save` writes it: `Successors`, the children
    of every node.

    Args:
        content: the file.

    Returns:
        Lists, numbers and texts as they stand, to be checked by whoever reads them; None for a
        tensor.

    Raises:
        InputError: another file, or one whose pickle does more than hold lists, numbers and
            tensors.
    """
    pickled = _data_pickle(content)
    values = None if pickled is None else _plain_values(pickled)
    if not isinstance(values, dict):
        raise InputError("must be a growmap, as torch.save writes it")
    if not isinstance(values.get("Successors"), list):
        raise InputError("is missing: needed is a list per node", key="Successors")
    return values


def _data_pickle(content: bytes) -> bytes | None:
    """The pickle inside a file of torch; None where there is none, or none of a tree's size."""
    broken = (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        NotImplementedError,
        RuntimeError,
        OSError,
        ValueError,
        LookupError,
        EOFError,
        OverflowError,
    )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = [
                member for member in archive.infolist() if member.filename.endswith("/data.pkl")
            ]
            return (
                archive.read(inside[0])
                if len(inside) == 1 and inside[0].file_size <= MOST_PICKLE_BYTES
                else None
            )
    except broken:
        return None


_TENSORS = ("torch._utils _rebuild_tensor_v2", "torch LongStorage", "collections OrderedDict")
_PUSHES: Mapping[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NEWFALSE": lambda: False,
    "NEWTRUE": lambda: True,
    "NONE": lambda: None,
}


def _plain_values(content: bytes) -> object:
    """What a pickle of lists, dictionaries, numbers, texts and tensors holds; tensors become
    None.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for code, argument, _ in pickletools.genops(content):
                if code.name == "STOP":
                    return stack.pop()
                _run(code.name, argument, stack, marks, memo)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):
        pass
    raise InputError("must be a growmap, as torch.save writes it")


def _run(
    name: str, argument: Any, stack: list[Any], marks: list[int], memo: dict[int, Any]
) -> None:
    if name in _PUSHES:
        stack.append(_PUSHES[name]())
    elif name in ("BININT", "BININT1", "BININT2", "BINUNICODE"):
        stack.append(argument)
    elif name == "MARK":
        marks.append(len(stack))
    elif name in ("BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    # what a tensor is made of is pushed as None and never called
    elif name == "GLOBAL" and argument in _TENSORS:
        stack.append(None)
    elif name in ("BINPERSID", "REDUCE"):
        # BINPERSID takes a storage off the stack, REDUCE a function and its arguments: nothing is
        # loaded or called, None stands in
        stack[-1 if name == "BINPERSID" else -2 :] = [None]
    elif name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
        start = marks.pop() if name == "TUPLE" else len(stack) - int(name[-1])
        stack[start:] = [tuple(stack[start:])]
    elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
        start = marks.pop() if name.endswith("S") else len(stack) - (1 if name == "APPEND" else 2)
        values, holder = stack[start:], stack[start - 1]
        del stack[start:]
        if isinstance(holder, dict):
            holder |= zip(values[::2], values[1::2], strict=True)
        else:
            holder.extend(values)
    elif name != "PROTO":
        raise InputError(
            "holds more than lists, numbers and tensors", key="data.pkl", value=argument or name
        )
