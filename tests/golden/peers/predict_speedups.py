"""What speedup of drafting does AISimulate predict from its own step costs, told the mean accepted
length?

Runs in the tool's own environment: one question a line in, as `speedups.py` writes them, one answer
a line out. The speedup is its time per output token without a drafter over that with one, at one
batch, lengths and width. The draft head of EAGLE-3 is one layer of the target's shape, as published
heads for these targets are.
"""

import contextlib
import io
import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

from aisimulate.legacy_cli.api import cli_estimate
from aisimulate_core.sdk.perf_database import get_latest_database_version

# width, feed-forward width and query heads of the one layer: the target's, which the tool requires
HEADS = {
    "meta-llama/Meta-Llama-3.1-8B": (4096, 14336, 32),
    "meta-llama/Meta-Llama-3.1-70B": (8192, 28672, 64),
}
PLACE = ("model_path", "system_name", "backend_name", "tp_size", "batch_size", "isl", "osl")


def speculative(question: dict[str, Any]) -> dict[str, Any]:
    """The tool's words for a chain of K draft tokens of which so many are accepted on average."""
    params: dict[str, Any] = {"num_speculative_tokens": question["draft_tokens"]}
    if question["method"] == "n-gram":
        params["trigger_rate"] = question["match_rate"]
        return {"method": "ngram", "params": params, "accepted_tokens": question["accepted"]}
    hidden, inner, heads = HEADS[question["model_path"]]
    layer = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": 1,
        "vocab_size": 128256,
        "draft_vocab_size": 32000,
    }
    return {
        "method": "eagle3",
        "params": params,
        "accepted_tokens": question["accepted"],
        "draft_config": layer,
    }


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The predicted speedup, or the reason why there is none."""
    if question["method"] == "eagle-3" and question["model_path"] not in HEADS:
        return {
            "id": question["id"],
            "reason": "EAGLE-3 is priced for targets of the Llama family alone",
        }
    place = {key: question[key] for key in PLACE} | {"mode": "static", "database_mode": "HYBRID"}
    place["backend_version"] = get_latest_database_version(
        place["system_name"], place["backend_name"]
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            plain = cli_estimate(**place).tpot
            drafted = cli_estimate(**place, speculative=speculative(question)).tpot
    except Exception as error:  # whatever a foreign tool raises is its reason
        return {"id": question["id"], "reason": f"{type(error).__name__}: {error}"[:160]}
    return {
        "id": question["id"],
        "speedup": round(plain / drafted, 4),
        "plain_tpot_ms": round(plain, 4),
    }


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for line in Path(sys.argv[1]).read_text().splitlines():
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
