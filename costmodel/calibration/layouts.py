"""Which columns does each published layout of kernel timings have, and what do they mean?

The aiconfigurator performance tables, and the per-layer profiles of Vidur and LLMServingSim. Times
are in microseconds unless a column ends in `_ms`. Leaves out opening files (`tables`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.attention import Attention
from costmodel.architectures.library import load_model, model_names
from costmodel.calibration.measurements import Measurements, measurements
from costmodel.calibration.routing import MOST_SLOTS, balanced_loads, power_law_loads
from costmodel.passes.ops import FEW_ROWS, LEAST_ROWS, MANY_ROWS, Array
from hardware_profiles.errors import InputError
from hardware_profiles.units import MICRO, MILLI

Texts = npt.NDArray[np.str_]
MOST_SIZE = 1e12


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """Columns of one table, checked as they are asked for.

    Args:
        table: pyarrow table.
        file: its name, for errors.
        model: shipped model whose shapes the layers have; None: the one that the file's name names.
    """

    table: Any
    file: str
    model: str | None = None

    def texts(self, name: str) -> Texts:
        """A column of text.

        Raises:
            InputError: something else than text of at most 200 characters.
        """
        values = self.table[name].to_pylist()
        for row, value in enumerate(values):
            if not isinstance(value, str) or len(value) > 200:
                raise InputError(
                    "must be text of at most 200 characters",
                    file=self.file,
                    key=self._at(name, row),
                )
        return np.asarray(values, dtype=np.str_)

    def sizes(self, name: str, *, least: float = 1.0) -> Array:
        """A column of whole numbers from `least` on.

        Args:
            name: of the column.
            least: smallest number allowed.

        Raises:
            InputError: something else.
        """
        return self._numbers(name, least=least, whole=True)

    def seconds(self, name: str, unit: float, *, gaps: bool = False) -> Array:
        """A column of times above zero, in seconds; with `gaps`, rows without a time are NaN.

        Args:
            name: of the column.
            unit: seconds of one of its units.
            gaps: whether rows may lack a time.

        Raises:
            InputError: no number, or none above 0.
        """
        values = self._numbers(name, least=0.0, whole=False, gaps=gaps)
        bad = np.flatnonzero(values <= 0.0)
        if bad.size:
            raise InputError(
                "must be above 0", file=self.file, key=self._at(name, int(bad[0])), value=0.0
            )
        return values * unit

    def flags(self, name: str) -> npt.NDArray[np.bool_]:
        """A column of true and false.

        Raises:
            InputError: something else.
        """
        values = self.table[name].to_pylist()
        for row, value in enumerate(values):
            if not isinstance(value, bool):
                raise InputError(
                    "must be true or false", file=self.file, key=self._at(name, row), value=value
                )
        return np.asarray(values, dtype=np.bool_)

    def architecture(self) -> Architecture:
        """The model whose layers were timed.

        Raises:
            InputError: the file's name names no shipped model, and none was given.
        """
        if self.model is not None:
            return load_model(self.model)
        bare = re.sub(r"[\W_]+", "", self.file.replace("\\", "/").rsplit("/", 1)[-1].casefold())
        named = [name for name in model_names() if re.sub(r"[\W_]+", "", name.casefold()) in bare]
        if not named:
            raise InputError(
                "names layers without their shapes; say whose with --model", file=self.file
            )
        return load_model(max(named, key=len))

    def _numbers(self, name: str, *, least: float, whole: bool, gaps: bool = False) -> Array:
        column = self.table[name]
        raw = column.to_pylist()
        values = np.empty(len(raw))
        for row, value in enumerate(raw):
            if value is None and gaps:
                values[row] = np.nan
                continue
            fits = (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and least <= value <= MOST_SIZE
            )
            if not fits or (whole and value != int(value)):
                kind = "a whole number" if whole else "a number"
                rule = f"must be {kind} from {least:g} to {MOST_SIZE:g}"
                raise InputError(rule, file=self.file, key=self._at(name, row), value=value)
            values[row] = value
        return values

    @staticmethod
    def _at(name: str, row: int) -> str:
        return f"{name}, row {row + 1}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLayout:
    """A layout of measured tables.

    Attributes:
        name: of the layout.
        columns: that identify it.
        measurements: what they mean.
    """

    name: str
    columns: frozenset[str]
    measurements: Callable[[Reader], list[Measurements]]


_FORMATS = {"nvfp4": "fp4"}  # names of tables for formats that go by another one here


def _formats(r: Reader) -> Texts:
    return np.asarray(
        [_FORMATS.get(name, name) for name in r.texts("dtype").tolist()], dtype=np.str_
    )


def _products(r: Reader) -> list[Measurements]:
    """Linear layers of TensorRT-LLM, which convert what they read where they compute in fewer than
    16 bits.
    """
    sizes: dict[str, npt.ArrayLike] = {
        "rows": r.sizes("m"),
        "outputs": r.sizes("n"),
        "inputs": r.sizes("k"),
        "converts": 1.0,
    }
    return [measurements("gemm", sizes, r.seconds("us", MICRO), file=r.file, dtype=_formats(r))]


def _decode_attention(r: Reader) -> list[Measurements]:
    sizes: dict[str, npt.ArrayLike] = {
        "requests": r.sizes("b"),
        "query_tokens": 1.0,
        "context": r.sizes("ctx"),
        "heads": r.sizes("hq"),
        "kv_heads": r.sizes("hkv"),
        "head_dim": r.sizes("d"),
    }
    return [measurements("attention_generation", sizes, r.seconds("us", MICRO), file=r.file)]


def _prompt_attention(r: Reader) -> list[Measurements]:
    """Prompts without a cache; those of one token run in the kernel that decodes."""
    tokens = r.sizes("s")
    sizes: dict[str, npt.ArrayLike] = {
        "requests": r.sizes("b"),
        "query_tokens": tokens,
        "context": np.where(tokens > 1, 0.0, 1.0),
        "heads": r.sizes("hq"),
        "kv_heads": r.sizes("hkv"),
        "head_dim": r.sizes("d"),
    }
    seconds, kinds = (
        r.seconds("us", MICRO),
        {"attention_context": tokens > 1, "attention_generation": tokens == 1},
    )
    return [
        measurements(name, sizes, seconds, file=r.file).select(rows) for name, rows in kinds.items()
    ]


def _latent(r: Reader) -> list[Measurements]:
    sizes: dict[str, npt.ArrayLike] = {
        "requests": r.sizes("b"),
        "context": r.sizes("ctx"),
        "heads": r.sizes("hq_local"),
    }
    return [
        measurements(
            "mla_generation", sizes, r.seconds("us", MICRO), file=r.file, dtype=r.texts("kv")
        )
    ]


def _expert_layers(r: Reader) -> list[Measurements]:
    tokens, experts, chosen = r.sizes("t"), r.sizes("E"), r.sizes("topk")
    spread = r.texts("dist")
    loads: dict[tuple[str, float, float, float], tuple[float, float, float]] = {}
    visited, padded, least = np.empty((3, len(tokens)))
    for row, key in enumerate(zip(spread.tolist(), tokens, experts, chosen, strict=True)):
        if key not in loads:
            loads[key] = _visited(r.file, row, *key)
        visited[row], padded[row], least[row] = loads[key]
    sizes: dict[str, npt.ArrayLike] = {
        "tokens": tokens,
        "hidden": r.sizes("h"),
        "width": r.sizes("f") / r.sizes("tp"),
        "experts": experts,
        "experts_per_token": chosen,
        "visited": visited,
        "padded_rows": padded,
        "least_padded_rows": least,
    }
    seconds = r.seconds("us", MICRO)
    return [measurements("moe", sizes, seconds, file=r.file, dtype=_formats(r), part=spread)]


def _visited(
    file: str, row: int, spread: str, tokens: float, experts: float, chosen: float
) -> tuple[float, float, float]:
    """Distinct experts, and rows of all experts in tiles that go by the tokens, and in the smallest
    ones.
    """
    if chosen > experts or tokens * chosen > MOST_SLOTS:
        rule = f"must not exceed E, and {MOST_SLOTS} choices in all"
        raise InputError(rule, file=file, key=f"topk, row {row + 1}", value=chosen)
    skewed = re.fullmatch(r"power_law_(\d+(?:\.\d+)?)", spread)
    loads: Array
    if spread == "balanced":
        loads = balanced_loads(int(tokens), int(experts), int(chosen))
    elif skewed and 0.0 < float(skewed[1]) < 10.0:
        loads = power_law_loads(int(tokens), int(experts), int(chosen), float(skewed[1])).astype(
            np.float64
        )
    else:
        raise InputError(
            "must be balanced or power_law_<exponent>",
            file=file,
            key=f"dist, row {row + 1}",
            value=spread,
        )
    tiles = (MANY_ROWS if tokens > experts else FEW_ROWS, LEAST_ROWS)
    padded, least = (float((np.ceil(loads / tile - 1e-9) * tile).sum()) for tile in tiles)
    return float(np.count_nonzero(loads)), padded, least


def _reductions(r: Reader) -> list[Measurements]:
    names = (
        r.texts("backend")
        if "backend" in r.table.column_names
        else np.full(r.table.num_rows, "trtllm")
    )
    kernels = {
        "vllm_graph": ("vllm", 1.0),
        "vllm_eager": ("vllm", 0.0),
        "trtllm": ("trtllm", 1.0),
        "nccl": ("nccl", 1.0),
    }
    for row, name in enumerate(names.tolist()):
        if name not in kernels:
            rule = f"must be one of {', '.join(kernels)}"
            raise InputError(rule, file=r.file, key=f"backend, row {row + 1}", value=name)
    sizes: dict[str, npt.ArrayLike] = {
        "bytes": r.sizes("bytes"),
        "devices": r.sizes("tp", least=2.0),
        "graphs": np.array([kernels[name][1] for name in names.tolist()]),
    }
    part = np.array([kernels[name][0] for name in names.tolist()])
    return [measurements("allreduce", sizes, r.seconds("us", MICRO), file=r.file, part=part)]


def _collectives(r: Reader) -> list[Measurements]:
    """NCCL within one server; networks of pairs have fewer links per device than the profile's."""
    workers, seconds = r.sizes("num_workers"), r.seconds("time_ms", MILLI)
    within = (
        (workers == r.sizes("devices_per_node"))
        & (workers > 1)
        & (r.texts("collective") == "all_reduce")
    )
    within &= np.char.find(r.texts("network"), "pairwise") < 0
    sizes: dict[str, npt.ArrayLike] = {
        "bytes": r.sizes("size_bytes"),
        "devices": workers,
        "graphs": 1.0,
    }
    rows = measurements("allreduce", sizes, seconds, file=r.file, part="nccl", resolution_s=MICRO)
    return [rows.select(within)]


def _chunks(r: Reader) -> list[Measurements]:
    parallel, width = r.sizes("tp"), r.sizes("n_embd")
    heads, prompt = r.sizes("n_q_head"), r.flags("is_prefill")
    chunk, cached = r.sizes("prefill_chunk", least=0.0), r.sizes("kv_len", least=0.0)
    spent = np.where(
        prompt,
        r.seconds("attn_prefill_ms", MILLI, gaps=True),
        r.seconds("attn_decode_ms", MILLI, gaps=True),
    )
    shape: dict[str, npt.ArrayLike] = {
        "requests": r.sizes("batch_size"),
        "query_tokens": np.where(prompt, chunk, 1.0),
        "context": cached,
        "heads": heads / parallel,
        "kv_heads": np.maximum(r.sizes("n_kv_head") / parallel, 1.0),
        "head_dim": width / heads,
        "beside_requests": 0.0,
        "beside_context": 0.0,
    }
    timed = np.isfinite(spent)
    kinds = {
        "attention_generation": ~prompt,
        "attention_context": prompt & (cached == 0) & (chunk > 1),
        "attention_verify": prompt & (cached > 0) & (chunk > 1),
    }
    return [
        measurements(
            name, shape, np.where(timed, spent, 1.0), file=r.file, resolution_s=MICRO
        ).select(rows & timed)
        for name, rows in kinds.items()
    ]


def _attention_of(r: Reader) -> Attention:
    return r.architecture().blocks[0][0].attention


def _mixed_batches(r: Reader) -> list[Measurements]:
    """One request with a chunk of new tokens, beside others with one token each."""
    attention, parallel = _attention_of(r), r.sizes("tp")
    chunk, cached = r.sizes("prefill_chunk", least=0.0), r.sizes("kv_prefill", least=0.0)
    others, read = r.sizes("n_decode", least=0.0), r.sizes("kv_decode", least=0.0)
    alone = chunk == 0
    shape: dict[str, npt.ArrayLike] = {
        "requests": np.where(alone, others, 1.0),
        "query_tokens": np.where(alone, 1.0, chunk),
        "context": np.where(alone, read, cached),
        "heads": attention.heads / parallel,
        "kv_heads": np.maximum(attention.kv_heads / parallel, 1.0),
        "head_dim": float(attention.head_dim),
        "beside_requests": np.where(alone, 0.0, others),
        "beside_context": np.where(alone, 0.0, read),
    }
    kinds = {
        "attention_generation": alone & (others > 0),
        "attention_context": ~alone & (others == 0) & (cached == 0),
        "attention_verify": ~alone & ((others > 0) | (cached > 0)),
    }
    seconds = r.seconds("time_us", MICRO)
    return [
        measurements(name, shape, seconds, file=r.file).select(rows) for name, rows in kinds.items()
    ]


def _layers(r: Reader, rows_column: str) -> list[Measurements]:
    """Matrix products of a model's layers; other layers are left out."""
    model, names, parallel = r.architecture(), r.texts("layer"), r.sizes("tp")
    attention, width = model.blocks[0][0].attention, model.blocks[0][0].feed_forward.width
    qkv = (attention.heads + 2 * attention.kv_heads) * attention.head_dim
    shapes = {
        "qkv_proj": (qkv, model.hidden, False),
        "o_proj": (model.hidden, attention.heads * attention.head_dim, True),
        "gate_up_proj": (2 * width, model.hidden, False),
        "down_proj": (model.hidden, width, True),
        "lm_head": (model.vocab, model.hidden, False),
    }
    tables = []
    tokens, seconds = r.sizes(rows_column), r.seconds("time_us", MICRO)
    for name, (outputs, inputs, inner) in shapes.items():
        sizes: dict[str, npt.ArrayLike] = {
            "rows": tokens,
            "outputs": outputs / (1.0 if inner else parallel),
            "inputs": inputs / (parallel if inner else 1.0),
        }
        tables.append(measurements("gemm", sizes, seconds, file=r.file).select(names == name))
    return tables


def _columns(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYOUTS = (
    TableLayout(name="products", columns=_columns("dtype m n k us"), measurements=_products),
    TableLayout(
        name="decode attention",
        columns=_columns("d hq hkv b ctx us"),
        measurements=_decode_attention,
    ),
    TableLayout(
        name="prompt attention", columns=_columns("d hq hkv b s us"), measurements=_prompt_attention
    ),
    TableLayout(
        name="latent attention", columns=_columns("kv hq_local b ctx us"), measurements=_latent
    ),
    TableLayout(
        name="expert layers",
        columns=_columns("dtype h f topk E tp dist t us"),
        measurements=_expert_layers,
    ),
    TableLayout(name="all-reduce", columns=_columns("tp elems bytes us"), measurements=_reductions),
    TableLayout(
        name="collectives",
        columns=_columns("network collective num_workers devices_per_node size_bytes time_ms"),
        measurements=_collectives,
    ),
    TableLayout(
        name="attention by chunk",
        columns=_columns(
            "tp n_embd n_q_head n_kv_head is_prefill batch_size prefill_chunk kv_len"
            " attn_prefill_ms attn_decode_ms"
        ),
        measurements=_chunks,
    ),
    TableLayout(
        name="attention of mixed batches",
        columns=_columns("tp prefill_chunk kv_prefill n_decode kv_decode time_us"),
        measurements=_mixed_batches,
    ),
    TableLayout(
        name="layers by token",
        columns=_columns("tp layer tokens time_us"),
        measurements=lambda r: _layers(r, "tokens"),
    ),
    TableLayout(
        name="layers by sequence",
        columns=_columns("tp layer sequences time_us"),
        measurements=lambda r: _layers(r, "sequences"),
    ),
)
