"""How far off are predicted speedups of drafting, ours and those of the one public tool that prices
a draft head?

    python -m tests.golden.peers.speedups ask FOLDER > questions.jsonl       # FOLDER is the
    reference data PEER/bin/python predict_speedups.py questions.jsonl > answers.jsonl      # in the
    tool's own environment python -m tests.golden.peers.speedups score questions.jsonl answers.jsonl

Measured: EAGLE-3 and n-gram chains of 3 in vLLM on one H100, and SpecBundle's EAGLE-3 chains in
SGLang on H200. Both tools are told the accepted length that was measured; the tool's range lacks
mixtures and latent attention.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.laws.acceptance import from_replay
from tests.golden import chosen_shapes, test_measured_speedups
from traces.importers.formats import import_trace
from traces.replay.statistics import request_draws
from traces.replay.walk import replay_chain

Row = Mapping[str, Any]
PATHS = {
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "llama-3.3-70b": "meta-llama/Meta-Llama-3.1-70B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3-coder-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "kimi-k2": "moonshotai/Kimi-K2-Instruct",
}
SLUGS = {"EAGLE-3": "eagle-3", "n-gram": "n-gram"}
CONTEXT = 1024  # what `predict` takes where nothing is stated, as SpecBundle does not


def questions(folder: Path) -> Iterator[dict[str, Any]]:
    """Every measured chain with its accepted length, what was measured, and our prediction."""
    for row in test_measured_speedups.rows.__wrapped__(folder):
        yield _vllm(row, folder)
    for group in chosen_shapes.spec_bundle(folder / "acceptance" / "speculative_measured.csv"):
        ours = chosen_shapes.predicted(group, group.chains)
        for k in group.chains:
            run = group.runs[str(k)]
            yield {
                "source": f"SpecBundle, SGLang, {group.target}",
                "id": f"{group.name}, {group.batch}, {k}",
                "model_path": PATHS[str(group.place["model"])],
                "system_name": "h200_sxm",
                "backend_name": "sglang",
                "tp_size": group.place["tp"],
                "batch_size": group.batch,
                "isl": CONTEXT,
                "osl": 2,
                "method": group.method,
                "draft_tokens": k,
                "accepted": run.length - 1.0,
                "measured": run.speedup,
                "rooftree": ours[str(k)],
            }


def _vllm(row: Any, folder: Path) -> dict[str, Any]:
    slug, drafter, match_rate = test_measured_speedups.METHODS[row.method]
    path = folder / "acceptance" / f"position_trace_llama31_8b_{row.dataset}.json"
    rate = {} if match_rate is None else {"match_rate": match_rate}
    trace = import_trace("specdecode-bench", path, drafter=drafter, **rate)
    draws = request_draws(trace.prompt_kinds, generator=np.random.default_rng(0))
    accepted = from_replay(replay_chain(trace, 3), draws).tokens_per_step - 1.0
    return {
        "source": f"vLLM, {row.method}",
        "id": f"{row.dataset}, {row.method}, {row.batch}",
        "model_path": PATHS["llama-3.1-8b"],
        "system_name": "h100_sxm",
        "backend_name": "vllm",
        "tp_size": 1,
        "batch_size": row.batch,
        "isl": int(trace.prompt_tokens.mean()),
        "osl": int(trace.output_tokens.mean()),
        "method": slug,
        "draft_tokens": 3,
        "accepted": float(accepted),
        "measured": row.measured,
        "rooftree": row.predicted,
        **({"match_rate": match_rate} if match_rate is not None else {}),
    }


def lines(asked: Sequence[Row], answers: Mapping[str, Row]) -> list[str]:
    """A Markdown table by source, percent; the tool beside ours on what it answers."""
    made = [
        (
            "| measured | runs | rooftree median / mean / p90 | tool answers | its median / mean /"
            " p90 | ours there |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for source in dict.fromkeys(q["source"] for q in asked):
        own = [q for q in asked if q["source"] == source]
        both = [q for q in own if (answers.get(q["id"]) or {}).get("speedup")]
        theirs = [(answers[q["id"]]["speedup"], q["measured"]) for q in both]
        ours = [[(q["rooftree"], q["measured"]) for q in part] for part in (own, both)]
        made.append(
            f"| {source} | {len(own)} | {_errors(ours[0])} | {len(both)} | {_errors(theirs)} |"
            f" {_errors(ours[1])} |"
        )
    return made


def _errors(pairs: Sequence[tuple[float, float]]) -> str:
    if not pairs:
        return ""
    off = abs(np.array([predicted / measured - 1.0 for predicted, measured in pairs]))
    return (
        f"{100 * np.median(off):.1f} / {100 * off.mean():.1f} / {100 * np.quantile(off, 0.9):.1f}"
    )


def _read(path: str) -> list[Row]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        for question in questions(Path(sys.argv[2])):
            sys.stdout.write(json.dumps(question, default=float) + "\n")
    else:
        told = {row["id"]: row for row in _read(sys.argv[3])}
        sys.stdout.write("\n".join(lines(_read(sys.argv[2]), told)) + "\n")
