"""Which model stands in for one of which only the number of parameters is known?

A dense decoder of the shapes that most have had since Llama 3: heads of 128, eight of them for keys
and values, a gated feed-forward of about 3.5 widths, a vocabulary of 128,256. Leaves out models of
experts, whose size says little of what a token reads.
"""

import re
from functools import lru_cache

from costmodel.architectures.hf.config import Reading, read_config
from hardware_profiles.errors import InputError
from hardware_profiles.units import GIGA, MEGA

LEAST_PARAMETERS, MOST_PARAMETERS = 1e8, 2e12
TIED_BELOW_PARAMETERS = 4e9  # smaller models read and write tokens with one table
WIDTH_PER_LAYER = 115  # 128 of Llama 3 8B, 102 of 70B, 130 of 405B
FEED_FORWARD_WIDTHS = 3.5
_VOCABULARY, _HEAD, _KV_HEADS, _FEED_FORWARD_STEP = 128_256, 128, 8, 64
_WIDTH_STEP, _MOST_WIDTH = _KV_HEADS * _HEAD, 1 << 16  # heads are shared evenly
_NAME = re.compile(
    r"dense-(?P<count>[0-9]{1,7}(?:\.[0-9]{1,3})?)(?P<unit>[mb])", re.ASCII | re.IGNORECASE
)


@lru_cache(maxsize=64)
def sized_reading(name: str) -> Reading | None:
    """The model that `dense-13b` or `dense-350m` names; None for any other name.

    Example:
        >>> model = sized_reading("dense-13b").architecture
        >>> model.layers, model.hidden, round(model.parameters / 1e9, 2)
        (35, 5120, 13.01)

    Args:
        name: `dense-`, a number, and `b` for billions of parameters or `m` for millions.

    Raises:
        InputError: fewer parameters than 100 million, or more than 2,000 billion.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    parameters = float(match["count"]) * (GIGA if match["unit"].casefold() == "b" else MEGA)
    if not LEAST_PARAMETERS <= parameters <= MOST_PARAMETERS:
        rule = (
            f"a dense model has {LEAST_PARAMETERS / MEGA:g} million to {MOST_PARAMETERS / GIGA:g}"
            " billion parameters"
        )
        raise InputError(rule, key="model", value=name)
    return read_config(
        _config(parameters), name=name.casefold(), file=name, source="number of parameters"
    )


def _config(parameters: float) -> dict[str, object]:
    """The config of the model whose shape is the most usual among those of so many parameters."""
    tied = parameters < TIED_BELOW_PARAMETERS
    widths = (_WIDTH_STEP // 2, *range(_WIDTH_STEP, _MOST_WIDTH, _WIDTH_STEP))
    shapes = [
        (width, layers)
        for width in widths
        if (layers := _layers(parameters, width, tied=tied)) >= 1
    ]
    width, layers = min(shapes, key=lambda shape: abs(shape[0] / shape[1] - WIDTH_PER_LAYER))
    inner = (parameters - _tables(width, tied=tied)) / layers - _attention(width)
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // _HEAD,
        "num_key_value_heads": min(_KV_HEADS, width // _HEAD),
        "head_dim": _HEAD,
        "intermediate_size": round(inner / (3 * width) / _FEED_FORWARD_STEP) * _FEED_FORWARD_STEP,
        "vocab_size": _VOCABULARY,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 131_072,
        "torch_dtype": "bfloat16",
    }


def _layers(parameters: float, width: int, *, tied: bool) -> int:
    layer_parameters = _attention(width) + 3 * FEED_FORWARD_WIDTHS * width**2
    return round((parameters - _tables(width, tied=tied)) / layer_parameters)


def _tables(width: int, *, tied: bool) -> float:
    return (1 if tied else 2) * _VOCABULARY * width


def _attention(width: int) -> float:
    return 2 * width**2 + 2 * width * _HEAD * min(_KV_HEADS, width // _HEAD)
