"""How do the options of `simulate` become the sections of a scenario?

Options go over what a scenario file says, key by key; those that nobody gave leave it as it is. Leaves out the options
themselves (`app.cli.simulate`).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# option (as its parameter is called): section and key; options of the same name as their key stand in `_SAME`
_SAME: Mapping[str, tuple[str, ...]] = {
    "requests": ("format", "arrivals", "variation", "burst_ratio", "users", "count", "prompt_tokens", "output_tokens",
                 "speed"),
    "deployment": ("model", "device", "dtype", "kv_dtype", "fidelity"),
    "scheduler": ("token_budget", "max_requests", "chunked_prefill", "prefill_first", "prefix_cache", "block_tokens",
                  "kv_blocks", "preemption", "reserve_output", "swap_block_s"),
    "speculation": ("trace", "draft_tokens", "tree", "method", "draft", "exit_layer", "draft_passes", "draft_bytes",
                    "match_rate", "controller", "overlap", "branches", "parts", "interference_ratio", "stop_ratio",
                    "ragged", "group_requests"),
    "blocks": ("commit_ratio", "closing_passes"),
    "disaggregation": ("prefill_replicas",),
    "feed_forward": ("attention_groups", "micro_batches"),
}  # fmt: skip
_OTHER: Mapping[str, tuple[str, str]] = {
    "requests": ("requests", "file"),
    "rate": ("requests", "rate_per_s"),
    "calm": ("requests", "calm_s"),
    "burst": ("requests", "burst_s"),
    "think_s": ("requests", "think_s"),
    "tp": ("deployment", "tensor_parallel"),
    "pp": ("deployment", "pipeline_parallel"),
    "ep": ("deployment", "expert_parallel"),
    "dp": ("deployment", "data_parallel"),
    "cp": ("deployment", "context_parallel"),
    "overrides": ("deployment", "overrides"),
    "watermark": ("scheduler", "watermark_ratio"),
    "slo_ttft_s": ("slo", "ttft_s"),
    "slo_tpot_s": ("slo", "tpot_s"),
    "admission": ("slo", "admission"),
    "schedule": ("speculation", "schedule"),
    "priorities": ("requests", "priorities"),
    "decode_block": ("blocks", "block_tokens"),
    "decode_passes": ("blocks", "passes"),
    "decode_query": ("blocks", "query_tokens"),
    "ffn_device": ("feed_forward", "device"),
    "ffn_tp": ("feed_forward", "tensor_parallel"),
    "ffn_link": ("feed_forward", "link_bytes_per_s"),
    "ffn_latency_s": ("feed_forward", "link_latency_s"),
    "transfer_token_s": ("disaggregation", "transfer_token_s"),
    "profile": ("profile", "prefix"),
    "overhead_s": ("profile", "overhead_s"),
}
_TOP = ("replicas", "router")
VARIANTS: Mapping[str, Mapping[str, bool]] = {
    "chunked": {"chunked_prefill": True, "prefill_first": False},
    "prefill-first": {"chunked_prefill": False, "prefill_first": True},
    "whole-prompts": {"chunked_prefill": False, "prefill_first": False},
    "no-prefix-cache": {"prefix_cache": False},
    "reserve-output": {"reserve_output": True},
}


def sections(given: Mapping[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of a scenario: what the file says, and over it what was given.

    Args:
        given: values of options by parameter; None: not given.
        file: sections of a scenario file, or nothing.

    Raises:
        InputError: a section of the file that holds no keys, or nothing about requests.
    """
    from hardware_profiles.errors import InputError

    places = {name: (section, name) for section, names in _SAME.items() for name in names} | dict(_OTHER)
    merged: dict[str, Any] = dict(file)
    for name, value in given.items():
        if value is None or name == "engine" or (isinstance(value, list) and not value):
            continue
        plain = str(value) if isinstance(value, Path) else value
        if name in _TOP:
            merged[name] = plain
            continue
        section, key = places[name]
        inside = merged.get(section) or {}
        if not isinstance(inside, Mapping):
            raise InputError("must be a section of keys", key=section)
        merged[section] = {**inside, key: plain}
    _engine(merged, given.get("engine"))
    _usual_arrivals(merged, given)
    if not merged.get("requests"):
        wanted = "needs --requests FILE, or --count, --prompt-tokens and --output-tokens with --rate or --users"
        raise InputError(wanted, key="requests")
    return merged


def schedule_rows(text: str | None) -> list[tuple[int, int, int]] | None:
    """A schedule such as `1-16:5,17-64:3,65-512:0` as rows (first batch, last batch, K).

    Raises:
        InputError: something else.
    """
    from hardware_profiles.errors import InputError

    if text is None:
        return None
    rows = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,6})-([0-9]{1,6}):([0-9]{1,4})\s*", part)
        if found is None:
            raise InputError("must be ranges such as 1-16:5,17-64:3", key="--schedule", value=text)
        rows.append((int(found[1]), int(found[2]), int(found[3])))
    return rows


def priority_shares(text: str | None) -> dict[int, float] | None:
    """Shares of requests by priority, such as `0:0.2,1:0.8`.

    Raises:
        InputError: something else, or a priority twice.
    """
    from hardware_profiles.errors import InputError

    if text is None:
        return None
    shares: dict[int, float] = {}
    for part in text.split(","):
        found = re.fullmatch(r"\s*(-?[0-9]{1,9}):([0-9]*\.?[0-9]+)\s*", part)
        if found is None or int(found[1]) in shares:
            raise InputError("must be shares by priority such as 0:0.2,1:0.8", key="--priorities", value=text)
        shares[int(found[1])] = float(found[2])
    return shares


def rates_of(text: str | None) -> list[float]:
    """Comma-separated requests per second, sorted, without repeats.

    Raises:
        InputError: something else, or not positive.
    """
    from hardware_profiles.errors import InputError

    if text is None:
        return []
    try:
        rates = sorted({float(part) for part in text.split(",")})
    except ValueError:
        rates = []
    if not rates or not all(0.0 < rate < float("inf") for rate in rates):
        raise InputError("must be positive numbers separated by commas", key="--rates", value=text)
    return rates


def variants_of(names: list[str] | None) -> list[tuple[str, Mapping[str, bool]]]:
    """What `--compare` adds to the scenario as it stands.

    Raises:
        UnknownNameError: no such variant.
    """
    from hardware_profiles.errors import UnknownNameError

    for name in names or ():
        if name not in VARIANTS:
            raise UnknownNameError("variant", name, VARIANTS, key="--compare")
    return [("as asked", {}), *((name, VARIANTS[name]) for name in dict.fromkeys(names or ()))]


def _engine(merged: dict[str, Any], engine: str | None) -> None:
    """`--engine` names an engine; beside a profile it is the file of its settings."""
    if engine is None:
        return
    section, key = ("profile", "engine") if "profile" in merged else ("deployment", "engine")
    merged[section] = {**(merged.get(section) or {}), key: engine}


def _usual_arrivals(merged: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Options that make sense with one kind of arrivals only choose it."""
    requests = merged.get("requests")
    if not isinstance(requests, Mapping) or given.get("arrivals") is not None:
        return
    if given.get("users") is not None:
        merged["requests"] = {**requests, "arrivals": "closed"}
    elif given.get("rate") is not None and requests.get("arrivals", "recorded") == "recorded":
        merged["requests"] = {**requests, "arrivals": "poisson"}
