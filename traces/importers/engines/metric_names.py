"""Under which names does each engine publish what it sees?

Names from the engines' own sources as of November 2026; older names follow the newer ones. Leaves
out counters of speculation, which the importers of traces know, and the prefix by which each name
begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

PREFIXES: Mapping[str, str] = {
    "vllm": "vllm:",
    "sglang": "sglang:",
    "tensorrt-llm": "trtllm_",
    "llama.cpp": "llamacpp:",
}

GAUGES: Mapping[str, tuple[str, ...]] = {
    "running": ("num_requests_running", "num_running_reqs", "requests_processing"),
    "waiting": ("num_requests_waiting", "num_queue_reqs", "requests_deferred"),
}
"""What an engine is doing at the moment of a scrape, summed over its copies: requests that run and
wait."""

KV_USED_RATIO = (
    "kv_cache_usage_perc",
    "gpu_cache_usage_perc",
    "token_usage",
    "kv_cache_utilization",
)
"""Share of the cache in use, which no sum over copies is."""

COUNTERS: Mapping[str, tuple[str, ...]] = {
    "requests": ("request_success", "num_requests", "num_requests_completed"),
    "prompt_tokens": ("prompt_tokens",),
    "cached_tokens": (
        "prefix_cache_hits",
        "cached_tokens",
        "prompt_tokens_cached",
        "prompt_cached_tokens",
    ),
    "output_tokens": ("generation_tokens", "tokens_predicted"),
    "preemptions": ("num_preemptions",),
}
"""What an engine has done since it started."""

TIMES: Mapping[str, tuple[str, ...]] = {
    "ttft_s": ("time_to_first_token_seconds",),
    "tpot_s": (
        "request_time_per_output_token_seconds",
        "time_per_output_token_seconds",
        "inter_token_latency_seconds",
    ),
    "itl_s": ("inter_token_latency_seconds",),
    "e2e_s": ("e2e_request_latency_seconds",),
    "queue_s": ("request_queue_time_seconds", "queue_time_seconds"),
}
"""Histograms of what requests waited for."""

RATES: Mapping[str, tuple[str, str]] = {
    "prompt_s_per_token": ("prompt_seconds", "prompt_tokens"),
    "tpot_s": ("tokens_predicted_seconds", "tokens_predicted"),
}
"""llama.cpp has no histograms: seconds over tokens stand in. Slots are summed, so these are times
of one request."""

STEPS = "iteration_tokens_total"  # vLLM: a histogram whose name ends like a counter's
# llama.cpp: a count and its mean since the start
DECODES, BUSY = ("n_decode", "n_busy_slots_per_decode")


def first_of(
    read: Callable[[str], float | None], prefix: str, names: Sequence[str]
) -> float | None:
    """The value under the first name that the engine has; None where it has none of them.

    Args:
        read: a value by its full name.
        prefix: of the engine's names.
        names: newer ones first.
    """
    return next((value for name in names if (value := read(f"{prefix}{name}")) is not None), None)
