"""What is left of a GGUF model that keeps some of its layers, as a draft model of its own?

Tensors are copied as they are stored, so nothing is quantised anew and the tokenizer stays the
target's. Leaves out training: a model that loses layers without any accepts little (README of
`real_runs`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder, whole_file
from real_runs.models.config import from_gguf

if TYPE_CHECKING:
    import gguf

LAYERS_KEY = "rooftree.layers"
_LAYER = re.compile(r"blk\.(\d{1,4})\.(.+)")
_MOST_TENSORS = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class CutDraft:
    """A file that was written.

    Attributes:
        path: where.
        layers: of the whole model that are left, ascending.
        whole_layers: of the whole model.
        tensor_bytes: of its tensors.
        whole_tensor_bytes: of the whole model's.
    """

    path: Path
    layers: tuple[int, ...]
    whole_layers: int
    tensor_bytes: int
    whole_tensor_bytes: int


def cut_draft(
    model: Path, out: Path, layers: Sequence[int], *, head: NDArray[np.float32] | None = None
) -> CutDraft:
    """Write the model that is left of another one.

    The embedding, the last norm and the head are the whole model's; layers are counted from 0 anew.
    A head of its own is stored with 8 bits, behind a norm that only scales.

    Args:
        model: a GGUF file of the Llama, Mistral, Qwen2 or Qwen3 family, in one piece.
        out: the file to write; one that is there is replaced when the new one is whole.
        layers: those to keep, ascending, from 0; at least one and not all.
        head: [vocabulary, width], from `fitted_head`; None: the whole model's.

    Raises:
        InputError: no such model, a foreign or truncated file, one of another family, or layers
            that it does not have.
    """
    # optional, here and below: `models` lists architectures without it
    import gguf

    if out.resolve() == model.resolve():
        raise InputError("must be another file than the model", key="out", value=str(out))
    try:
        reader = _reader(model)
        metadata = {
            name: field.contents()
            for name, field in reader.fields.items()
            if field.types and field.types[0] != gguf.GGUFValueType.ARRAY
        }
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise InputError(f"cannot be read as GGUF ({error})", file=model) from None
    count = _checked(reader, metadata, model)
    chosen = tuple(layers)
    if (
        not chosen
        or list(chosen) != sorted(set(chosen))
        or chosen[0] < 0
        or chosen[-1] >= count
        or len(chosen) == count
    ):
        raise InputError(
            f"must be some of 0..{count - 1}, ascending, and not all", key="layers", value=chosen
        )
    names = {
        tensor.name: new
        for tensor in reader.tensors
        if (new := _new_name(tensor.name, chosen)) is not None
    }
    tensors = _tensors(reader, names, head)
    make_folder(out.parent)
    with whole_file(out, synced=True) as part:
        _write(reader, part, str(metadata["general.architecture"]), chosen, tensors)
    return CutDraft(
        path=out,
        layers=chosen,
        whole_layers=count,
        tensor_bytes=sum(data.nbytes for _, data, _ in tensors),
        whole_tensor_bytes=sum(int(tensor.n_bytes) for tensor in reader.tensors),
    )


def read_layers(text: str) -> tuple[int, ...]:
    """Layers of a text: "10" is the first ten, "0-9,28,29" is a list in which spans include both
    ends.

    Raises:
        InputError: another form.

    Example:
        >>> read_layers("0-2,5"), read_layers("2")
        ((0, 1, 2, 5), (0, 1))
    """
    if not re.fullmatch(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", text):
        raise InputError(
            "must be a number of layers, or a list such as 0-9,28,29", key="layers", value=text
        )
    if text.isdigit():
        return tuple(range(int(text)))
    spans = [[int(end) for end in span.split("-")] for span in text.split(",")]
    return tuple(layer for span in spans for layer in range(span[0], span[-1] + 1))


def _reader(model: Path) -> gguf.GGUFReader:
    """The file, memory-mapped: tensors are read when they are copied."""
    import gguf

    class Plain(gguf.GGUFReader):  # type: ignore[misc]
        """Views of a plain array over the map take a third of the time, and a tokenizer is a
        quarter of a million.
        """

        @property
        def data(self) -> NDArray[Any]:
            return self._plain

        @data.setter
        def data(self, mapped: NDArray[Any]) -> None:
            self._plain = np.asarray(mapped)

    return Plain(model)


def _checked(reader: gguf.GGUFReader, metadata: dict[str, Any], file: Path) -> int:
    """The number of layers of a model that can be cut."""
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    if len(tensors) > _MOST_TENSORS or "token_embd.weight" not in tensors:
        raise InputError("must hold an embedding and layers", file=file, key="token_embd.weight")
    if int(metadata.get("split.count", 1)) > 1:
        raise InputError(
            "must be one file; join the parts with llama-gguf-split --merge",
            file=file,
            key="split.count",
        )
    rows = int(tensors["token_embd.weight"].shape[-1])
    config = from_gguf(
        metadata, tied_head="output.weight" not in tensors, vocabulary=rows, file=str(file)
    )
    present = {int(match[1]) for name in tensors if (match := _LAYER.fullmatch(name))}
    if present != set(range(config.layers)):
        raise InputError(
            f"must hold tensors of all {config.layers} layers", file=file, key="block_count"
        )
    return config.layers


def _new_name(name: str, layers: Sequence[int]) -> str | None:
    """A tensor's name in the new file; None where it is left out."""
    match = _LAYER.fullmatch(name)
    if match is None:
        return name
    layer = int(match[1])
    return f"blk.{layers.index(layer)}.{match[2]}" if layer in layers else None


def _tensors(
    reader: gguf.GGUFReader, names: dict[str, str], head: NDArray[np.float32] | None
) -> list[tuple[str, NDArray[Any], gguf.GGMLQuantizationType]]:
    """Names, stored values and formats of the new file's tensors."""
    import gguf

    copied = [
        (names[tensor.name], tensor.data, tensor.tensor_type)
        for tensor in reader.tensors
        if tensor.name in names
    ]
    if head is None:
        return copied
    replaced = ("output.weight", "output_norm.weight")
    kind = gguf.GGMLQuantizationType.Q8_0
    return [
        *(tensor for tensor in copied if tensor[0] not in replaced),
        (
            "output_norm.weight",
            np.ones(head.shape[1], dtype=np.float32),
            gguf.GGMLQuantizationType.F32,
        ),
        ("output.weight", gguf.quants.quantize(head, kind), kind),
    ]


def _write(
    reader: gguf.GGUFReader,
    part: Path,
    family: str,
    layers: Sequence[int],
    tensors: Sequence[tuple[str, NDArray[Any], gguf.GGMLQuantizationType]],
) -> None:
    import gguf

    writer = gguf.GGUFWriter(part, family, endianess=reader.endianess)
    writer.data_alignment = reader.alignment
    for name, field in reader.fields.items():
        # the writer has these of its own
        if name.startswith("GGUF.") or name in ("general.architecture", LAYERS_KEY):
            continue
        value = len(layers) if name == f"{family}.block_count" else field.contents()
        if name == "general.name":
            value = f"{value}, {len(layers)} layers"
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, field.types[0], sub_type)
    writer.add_array(LAYERS_KEY, list(layers))
    for name, data, kind in tensors:
        writer.add_tensor_info(name, data.shape, data.dtype, data.nbytes, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for _, data, _ in tensors:
        writer.write_tensor_data(data, tensor_endianess=reader.endianess)
    writer.close()
