"""A made-up kernel profile, as files of measured layers: what stands in it follows from formulas that
tests know."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

LAYERS = 32
ENGINE = {
    "engine_kwargs": {
        "model": "llama-3.1-8b",
        "max_num_seqs": 64,
        "max_num_batched_tokens": 1024,
        "dtype": "bfloat16",
    },
    "sim_config": {"nodes": [{"instances": [{"npu_mem": {"mem_size": 96, "mem_util": 0.9}}]}]},
}
NODE = {"npu_mem": {"mem_size": 96, "mem_util": 0.9, "mem_bw": 1597}, "ep_size": 2, "dp_group": "A"}
# two devices that copy attention and share the experts, over PCIe
RANKS = {
    "engine_kwargs": {
        "model": "qwen3-30b-a3b",
        "data_parallel_size": 2,
        "enable_expert_parallel": True,
        "max_num_seqs": 128,
        "max_num_batched_tokens": 2048,
        "dtype": "bfloat16",
    },
    "sim_config": {
        "link_bw": 16,
        "link_latency": 20000,
        "nodes": [{"instances": [NODE, NODE]}],
    },
}
CHUNKS, CACHED, REQUESTS, CONTEXTS = (
    (16, 64, 256, 1024),
    (0, 512, 2048),
    (0, 1, 8, 64),
    (16, 256, 1024, 4096),
)


def attention_us(chunk, cached, requests, context):
    """Linear in every size, so that straight lines between measured points are exact."""
    return 5.0 + 0.02 * chunk + 0.01 * cached + 0.5 * requests + 0.004 * context


def columns(rows, names):
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def expert_us(tokens, experts):
    """Of one expert layer that visits so many experts."""
    return 30.0 + 6.0 * experts + 0.3 * tokens


def write_profile(
    folder, *, keep=lambda c, p, n, k: True, skew=None, tp=1, engine=ENGINE, experts=None
):
    """The files of a profile and the engine's settings beside them.

    Args:
        folder: to write into.
        keep: which points of the grid of attention were measured.
        skew: measured cost of unequal contexts, by column.
        tp: devices that share every layer.
        engine: settings.
        experts: numbers of experts that were visited, of a model that has some.
    """
    rows = [(0, 0, n, k, attention_us(0, 0, n, k)) for n in REQUESTS[1:] for k in CONTEXTS]
    for c in CHUNKS:
        for p in CACHED:
            for n in REQUESTS:
                for k in CONTEXTS if n else (0,):
                    if keep(c, p, n, k):
                        rows.append((c, p, n, k, attention_us(c, p, n, 16 if n == 0 else k)))
    names = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
    parts = {"attention": columns(rows, names)}
    sizes = [1, 2, 64, 256, 1024]
    parts["dense"] = {
        "layer": [layer for layer in ("qkv_proj", "layernorm", "embedding") for _ in sizes],
        "tokens": sizes * 3,
        "time_us": [10.0 + 0.5 * s for s in sizes] + [1.0 + 0.01 * s for s in sizes] + [3.0] * 5,
    }
    parts["per_sequence"] = {
        "layer": ["lm_head"] * 4 + ["sampler"] * 4,
        "sequences": [1, 2, 32, 64] * 2,
        "time_us": [100.0, 101.0, 131.0, 163.0, 20.0, 20.0, 20.0, 20.0],
    }
    if skew is not None:
        parts["skew"] = skew
    if experts is not None:
        rows = [(size, own, expert_us(size, own)) for size in sizes for own in experts]
        parts["moe"] = columns(rows, ("tokens", "activated_experts", "time_us"))
    for name, content in parts.items():
        devices = [tp] * len(content["t_skew_us" if name == "skew" else "time_us"])
        pq.write_table(pa.table(content | {"tp": devices}), folder / f"p_{name}.parquet")
    (folder / "engine.json").write_text(json.dumps(engine))
    return folder / "p"
