"""How `models inspect` shows a model: its layers, its weights by part, its cache, and what was
assumed.
"""

from collections.abc import Mapping
from typing import Any

from app.render.text import print_table, say

_PARTS = {
    "embedding": "input embedding",
    "attention": "attention",
    "recurrent": "recurrent layers",
    "feed_forward": "feed-forward, shared experts and routers",
    "experts": "routed experts",
    "encoder": "encoder, and what it makes for cross-attention",
    "other": "norms and further parts",
    "head": "output head",
    "used_again": "layers used again, held once",
}


def print_model(answer: Mapping[str, Any]) -> None:
    """Print the answer of `app.answers.models.inspected`."""
    if answer["draft_head"] is not None:
        _print_head(answer["draft_head"])
    model = answer["model"]
    if model is None:
        return
    from hardware_profiles.units import GIGA, KILO, MEGA, format_bytes

    if model["read_as"]:
        say(model["read_as"])
    say(
        f"{model['name']} ({model['model_type']}, {model['source']}): {model['layers']} layers of"
        f" width {model['hidden']:,}, vocabulary"
        f" {model['vocab']:,}{', tied' if model['tied'] else ''}, context up to"
        f" {model['max_context']:,} tokens"
    )
    say(
        f"{model['parameters'] / GIGA:.3f} billion parameters,"
        f" {model['active_parameters'] / GIGA:.3f} billion for a token; weights in"
        f" {model['dtype']}: {format_bytes(model['weight_bytes'])}"
    )
    cached = model["kv_bytes_per_token"]
    states = model["state_bytes_per_request"]
    say(
        f"cache: {cached['bf16'] / KILO:.1f} kB a token in 16 bits, {cached['fp8'] / KILO:.1f} kB"
        " in 8" + (f"; recurrent states: {states / MEGA:.1f} MB a request" if states else "")
    )
    if model["quantiser"]:
        known = (
            ""
            if model["quantiser_known"]
            else f"; its number format is not known, {model['dtype']} is taken"
        )
        say(f"quantised by {model['quantiser']}{known}")
    if model["mtp_layers"]:
        say(
            f"multi-token prediction: {model['mtp_layers']} layer(s) beside the model, not counted"
            " (--method mtp)"
        )
    print_table(
        "Layers",
        ["layers", "attention", "recurrent", "feed-forward"],
        [_layer(b) for b in model["blocks"]],
    )
    total = model["parameters"]
    rows = [
        [_PARTS[part], f"{count / GIGA:.3f}", f"{100 * count / total:.1f}"]
        for part, count in model["parameters_by_part"].items()
        if count
    ]
    print_table("Parameters by part", ["part", "billions", "%"], rows)
    if model["assumed"]:
        listed = ", ".join(f"{key} = {value}" for key, value in sorted(model["assumed"].items()))
        say(f"assumed, since the config does not say (defaults of its model class): {listed}")
    if model["card"] is not None:
        _print_sources(model["card"])


def _print_sources(card: Mapping[str, Any]) -> None:
    say(f"shapes read in: {card['config_source'] or 'not recorded'}")
    if card["official_parameters"] is not None:
        say(f"parameters as stated: {card['official_source']}")
    if card["note"]:
        say(card["note"])


def _print_head(head: Mapping[str, Any]) -> None:
    words = [
        (
            f"{head['kind']} head"
            if head["certain"]
            else f"may be a head of {head['kind']} (one layer)"
        )
    ]
    words += [f"{head['layers']} layer(s)"] if head["layers"] else []
    words += [f"drafts among {head['draft_vocab']:,} tokens"] if head["draft_vocab"] else []
    words += [f"for a target of width {head['target_hidden']:,}"] if head["target_hidden"] else []
    say(
        f"draft head: {', '.join(words)} (from {head['reason']}); its price follows from the target"
        " (--method)"
    )


def _layer(block: Mapping[str, Any]) -> list[str]:
    attention = ""
    if block["heads"]:
        attention = (
            f"{block['heads']} heads, {block['kv_heads']} of keys and values, {block['head_dim']}"
            " wide"
        )
        if block["latent"]:
            attention = f"{block['heads']} heads over a latent vector of {block['latent']}"
        attention += f", window {block['window']:,}" if block["window"] else ""
        attention += f", {block['attends_to']:,} chosen tokens" if block["attends_to"] else ""
    wide = f"{block['feed_forward']:,}" if block["feed_forward"] else ""
    if block["experts"]:
        wide = f"{block['experts']} experts of {wide}, {block['experts_per_token']} a token"
        wide += f", shared {block['shared_width']:,}" if block["shared_width"] else ""
    return [str(block["layers"]), attention, block["state"], wide]
