"""What is a model made of, and what of that was assumed? The answer of `models inspect`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.architectures.architecture import Architecture
    from costmodel.architectures.hf.config import Reading
    from costmodel.architectures.hf.draft_head import DraftHead


def inspected(name: str, family: str | None = None) -> dict[str, Any]:
    """Everything that is known of a model by name, id or config.

    Args:
        name: shipped name, Hugging Face id, or path of a config.json, its folder or a model file.
        family: read a config as of this family.

    Returns:
        `model` (None where the file describes nothing but a draft head), and `draft_head` (None
        where it is none).

    Raises:
        InputError: an unknown name, or a file that cannot be read; of a file's mistakes all are
            named.
    """
    from dataclasses import asdict

    from costmodel.architectures.library import load_reading
    from hardware_profiles.errors import InputError

    head = _head(name)
    try:
        reading = load_reading(f"{name} as {family}" if family else name)
    except InputError:
        if head is None or not head.certain:
            raise
        return {"model": None, "draft_head": asdict(head)}
    return {"model": _described(reading), "draft_head": None if head is None else asdict(head)}


def _head(name: str) -> "DraftHead | None":
    from costmodel.architectures.library import head_of
    from hardware_profiles.errors import InputError

    try:
        return head_of(name)
    except (InputError, OSError, ValueError):
        return None  # reading it as a model says what is wrong


def _described(reading: "Reading") -> dict[str, Any]:
    from costmodel.passes.memory import kv_bytes, state_bytes, weight_bytes
    from costmodel.passes.precision import Precision, precision

    a = reading.architecture
    as_family = (
        f"its config is read as one of the family {reading.read_as}" if reading.read_as else ""
    )
    form = precision(a.dtype, model=a)
    one = {"batch": 1, "context": 1, "page_tokens": 1, "states": 0}
    cached = {kv: float(kv_bytes(a, Precision(kv=kv), **one)) for kv in ("bf16", "fp8")}
    return {
        "name": a.name,
        "source": a.source,
        "read_as": a.read_as or as_family,
        "model_type": a.model_type,
        "layers": a.layers,
        "hidden": a.hidden,
        "vocab": a.vocab,
        "max_context": a.max_context,
        "tied": a.tied,
        "parameters": a.parameters,
        "active_parameters": a.active_parameters,
        "parameters_by_part": parts(a),
        "dtype": a.dtype,
        "quantiser": reading.quantiser.removesuffix("?"),
        "quantiser_known": not reading.quantiser.endswith("?"),
        "weight_bytes": weight_bytes(a, form),
        "kv_bytes_per_token": cached,
        "state_bytes_per_request": state_bytes(a, form),
        "mtp_layers": a.mtp_layers,
        "blocks": [_block(a, number) for number in range(len(a.blocks))],
        "assumed": {key: value for key, value in reading.filled_in.items() if value is not None},
        "card": _card(a.name) if a.source == "shipped" else None,
    }


def _card(name: str) -> dict[str, Any]:
    """What a shipped model's file says of its own numbers."""
    from costmodel.architectures.library import model_card

    card = model_card(name)
    return {
        "official_parameters": card.official_parameters,
        "official_source": card.official_source,
        "config_source": card.config_source,
        "note": card.note,
    }


def parts(a: "Architecture") -> dict[str, int]:
    """Parameters of a model by part; they sum to all of them."""
    found = dict.fromkeys(
        ("embedding", "attention", "recurrent", "feed_forward", "experts", "other", "head"), 0
    )
    found["embedding"] = a.embedding_parameters
    found["head"] = 0 if a.tied else a.head_parameters
    for block, count in a.blocks:
        f = block.feed_forward
        experts = f.experts * f.expert_parameters(a.hidden)
        cross = block.cross.parameters(a.hidden) if block.cross else 0
        found["attention"] += count * (block.attention.parameters(a.hidden) + cross)
        found["recurrent"] += count * (block.state.parameters(a.hidden) if block.state else 0)
        found["experts"] += count * experts
        found["feed_forward"] += count * (f.parameters(a.hidden) - experts)
    if a.encoder is not None:
        found["encoder"] = a.encoder.parameters
    found["other"] = a.parameters + a.repeated_parameters - sum(found.values())
    if a.repeated_parameters:
        found["used_again"] = -a.repeated_parameters
    return found


def _block(a: "Architecture", number: int) -> dict[str, Any]:
    block, count = a.blocks[number]
    attention, f = block.attention, block.feed_forward
    return {
        "layers": count,
        "heads": attention.heads,
        "kv_heads": attention.kv_heads if attention.heads else 0,
        "head_dim": attention.head_dim,
        "window": attention.window,
        "latent": attention.kv_lora_rank,
        "attends_to": attention.index_tokens,
        "state": block.state.kind if block.state else "",
        "feed_forward": f.width,
        "experts": f.experts,
        "experts_per_token": f.experts_per_token,
        "shared_width": f.shared_width,
    }
