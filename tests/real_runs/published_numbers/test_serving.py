"""Rows of whole services: shared prefixes, prices of tokens, layers, long prompts, chunks."""

import pytest

from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.reading.sources import (
    PricedDevice,
    RowFacts,
    facts_of,
    row_facts_of,
)
from real_runs.published_numbers.reading.table import PublishedRow


def row(**changes):
    given = {"line": 2, "kind": "drafting", "group": "full", "system": "x", "source": "y"} | changes
    return PublishedRow(facts=facts_of(given["source"]), **given)


def predicted(*rows):
    return [each.predicted for each in predictions(list(rows))]


HYDRAGEN = {
    "source": "arXiv:2402.05099 Tables 1/3/5",
    "target": "CodeLlama-7B",
    "hardware": "A100-40GB",
    "devices": "8",
    "precision": "fp16",
    "output": "128",
    "unit": "ktok/s",
    "value": 1.0,
}


def test_a_shared_prefix_is_read_once_and_a_copy_by_everybody():
    rows = [
        row(**HYDRAGEN, system="Hydragen", batch="64", prompt=f"{size} shared prefix")
        for size in ("1K", "16K")
    ]
    rows += [
        row(**HYDRAGEN, system="FlashAttention", batch="64", prompt=size) for size in ("1K", "16K")
    ]
    short, long, copied, long_copied = predicted(*rows)
    assert short / long < 1.3
    assert copied / long_copied > 3.0
    assert short > copied


def test_the_floor_of_the_same_source_stands_for_all_but_attention():
    shared = row(**HYDRAGEN, system="Hydragen", batch="64", prompt="1K shared prefix")
    for floor_value in (2.0, 5.7):
        floor = row(
            **(HYDRAGEN | {"value": floor_value}),
            system="No-attention bound",
            batch="64",
            prompt="0 (attention removed)",
        )
        found, _ = predicted(shared, floor)
        assert found < floor_value
        assert 64 / (1e3 * found) > 64 / (1e3 * floor_value)


def test_an_engine_before_those_that_are_known_is_refused():
    (found,) = predictions(
        [row(**HYDRAGEN, system="vLLM no-detokenize", batch="64", prompt="1K shared prefix")]
    )
    assert "early 2024" in found.reason


PRICED = {
    "source": "arXiv:2507.19427 Table 6",
    "target": "DeepSeek-V3",
    "hardware": "H800",
    "value": 0.054,
    "prompt": "attention ctx 8192",
    "unit": "$/1M tokens (attention ctx 8192)",
}
H800 = PricedDevice(usd_per_hour=2.0, fp8_flops_per_s=1.98e15, bytes_per_s=3.35e12)


def test_prices_of_tokens_follow_those_of_the_source():
    assert row_facts_of(PRICED["source"], PRICED).priced == H800
    dear = RowFacts(priced=H800._replace(usd_per_hour=4.0))
    one, two = predicted(
        row(**PRICED, own_facts=RowFacts(priced=H800)), row(**PRICED, own_facts=dear)
    )
    assert two == pytest.approx(2.0 * one)
    assert one == pytest.approx(0.054, rel=0.02)
    (unpriced,) = predictions([row(**PRICED)])
    assert "no price" in unpriced.reason


def test_bytes_and_operations_of_a_token_grow_with_the_context():
    cells = {"source": "arXiv:2507.19427 Tables 2-3", "target": "Qwen3-32B", "value": 1.0}
    for unit in ("bytes/token", "FLOPs/token"):
        short, long = predicted(
            *(row(**cells, unit=unit, prompt=f"ctx {size}") for size in (8192, 32_768))
        )
        assert long == pytest.approx(4.0 * short)


def test_ratios_at_stated_roofs_begin_at_one():
    words = "H100 roofline (fp8 1978T, attention 989T, 3.35*1024^4 B/s)"
    rows = [
        row(
            hardware=words,
            unit="x step time",
            value=1.0,
            batch="16",
            prompt="KV 1024",
            shape=f"block={size}",
        )
        for size in (1, 16, 64)
    ]
    one, sixteen, many = predicted(*rows)
    assert one == 1.0
    assert one < sixteen < 1.1 < many


def test_more_devices_shorten_prompts_and_not_tokens():
    nodes = {
        "source": "arXiv:2411.01783",
        "system": "Context Parallelism",
        "value": 1.0,
        "prompt": "131072",
    }
    rows = [
        row(**nodes, unit=unit, own_facts=RowFacts(parallel=parallel))
        for unit in ("ms TTFT", "ms TTIT")
        for parallel in ((1, 8), (2, 8))
    ]
    alone, shared, token, shared_token = predicted(*rows)
    assert 1.7 < alone / shared < 2.1
    assert shared_token > token


def test_a_deployment_of_attention_and_feed_forward_nodes():
    cells = {
        "source": "arXiv:2507.19427 Tables 2-9",
        "system": "Step-3 (AFD)",
        "target": "Step-3 321B-A38B",
        "hardware": "Hopper H800",
        "prompt": "ctx 4096",
        "unit": "tok/s/GPU",
        "value": 4039.0,
        "precision": "fp8",
        "own_facts": RowFacts(nodes=(2, 2)),
    }
    batched, few = predicted(row(**cells, batch="6144"), row(**cells, batch="384"))
    assert batched > few


def test_chunks_hide_decodes():
    cells = {
        "source": "arXiv:2308.16369",
        "system": "SARATHI",
        "target": "LLaMA-13B",
        "hardware": "RTX A6000 48GB",
        "precision": "fp16",
        "prompt": "seq 1024",
        "value": 1.0,
        "unit": "ms/token",
    }
    alone, rides, prompt = predicted(
        row(**cells, batch="4", data="decode-only"),
        row(**cells, batch="1 prefill chunk 1021 + 3 decodes", data="decode-maximal (piggybacked)"),
        row(**cells, batch="any", data="prefill-only"),
    )
    assert prompt < rides < alone / 4.0
    (schedule,) = predictions([row(**(cells | {"unit": "s"}), batch="18")])
    assert "neither a chunk nor a ratio" in schedule.reason


def test_schedules_of_chunks_gain_what_rides_on_them():
    cells = {
        "source": "arXiv:2308.16369",
        "system": "SARATHI",
        "target": "LLaMA-13B",
        "hardware": "RTX A6000 48GB",
        "precision": "fp16",
        "speedup": 1.0,
    }
    few, many, longer = (
        predicted(
            row(**cells, batch=batch, prompt=prompt, data="decode speedup, chunk 256 (Fig 8)")
        )[0]
        for batch, prompt in (("2", "1K"), ("18", "1K"), ("2", "2K"))
    )
    assert (
        few > many > 1.0 and few > longer > 1.0
    )  # a read of the weights is shared by fewer, a read of the cache by none
    short, whole = (
        predicted(
            row(**cells, batch="18", prompt="1K", data=f"e2e throughput, chunk {chunk} (Fig 9)")
        )[0]
        for chunk in (32, 256)
    )
    assert short < 1.0 < whole  # tiny chunks read the weights for nearly nothing
    (chunkless,) = predictions(
        [row(**cells, batch="6", prompt="1K, P:D 50:1", data="e2e throughput (Table 4)")]
    )
    assert chunkless.predicted > 1.0 and "256 tokens ASSUMED" in " ".join(chunkless.remarks)
    (seconds,) = predictions(
        [
            row(
                **(cells | {"value": 6.7, "unit": "s"}),
                batch="18",
                prompt="1K",
                data="iteration time, chunk 256 (Fig 10)",
            )
        ]
    )
    assert seconds.baseline / seconds.predicted == pytest.approx(seconds.speedup)
    (full,) = predictions([row(**cells, batch="18", prompt="1K", data="e2e throughput, chunk 16")])
    assert "no room" in full.reason
