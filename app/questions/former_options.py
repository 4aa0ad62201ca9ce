"""Which key of a scenario is an option that earlier versions of `simulate` had?"""

from simulator.scenario.schema import known_keys

# options of earlier versions whose key bears another name; further ones bear their key's
_FORMER = {
    "burst": "requests.burst_s",
    "cp": "deployment.context_parallel",
    "decode-block": "blocks.block_tokens",
    "decode-passes": "blocks.passes",
    "decode-query": "blocks.query_tokens",
    "dp": "deployment.data_parallel",
    "ep": "deployment.expert_parallel",
    "ffn-device": "feed_forward.device",
    "ffn-latency": "feed_forward.link_latency_s",
    "ffn-link": "feed_forward.link_bytes_per_s",
    "ffn-tp": "feed_forward.tensor_parallel",
    "mixed": "scheduler.prefill_first",
    "parallel": "scheduler.max_requests",
    "pp": "deployment.pipeline_parallel",
    "profile": "profile.prefix",
    "tp": "deployment.tensor_parallel",
}


def key_of_option(option: str) -> str | None:
    """The key of a scenario that an option which `simulate` does not have stands for; None where
    none is meant.

    Args:
        option: such as `--token-budget` or `--no-prefix-cache`.

    Example:
        >>> key_of_option("--token-budget")
        'scheduler.token_budget'
    """
    name = option.lstrip("-").removeprefix("no-")
    if name in _FORMER:
        return _FORMER[name]
    field, keys = name.replace("-", "_"), list(known_keys())
    same = [key for key in keys if key.rpartition(".")[2] == field]
    longer = [key for key in keys if key.rpartition(".")[2].startswith(f"{field}_")]
    return next(iter(same + longer), None)
