"""A diffusion researcher's own passes: from printed lines to a threshold, and where it beats a model that
is decoded token by token."""

import re

from tests.traces.importers.confidence.test_passes import printed
from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.kinds.provenance import Provenance


def test_from_printed_passes_to_a_threshold(user, tmp_path):
    refused = user("rooftree optimize --model llada-8b --method fast-dllm", code=2).err
    for step in (
        "confidence/masked-names--dual-cache",
        "traces import",
        "record --masked",
        "published of llada-8b: 2.77",
    ):
        assert step in refused
    instead = re.search(r"`(rooftree breakeven [^`]*)`", refused).group(1)
    published = user(instead)
    assert (
        "acceptance published of llada-8b: 2.77" in published.out and "stated" not in published.out
    )

    trace = toy_trace(ANCHORS, prompts=4, length=32, provenance=Provenance(model="llada-8b"))
    (tmp_path / "own.jsonl").write_text(printed(trace))
    imported = user("rooftree traces import own.jsonl")
    assert "read as masked-passes" in imported.out and "optimize" in imported.lines[-1]
    shown = user("rooftree traces inspect own.parquet --json").answer
    assert [row["commit"] for row in shown["policies"]] == ["static", "threshold", "threshold"]

    asked = (
        "--model llada-8b --method fast-dllm --trace own.parquet --cache none --block 8 --batch 1"
    )
    other = "--against llama-3.1-8b"
    found = user(
        f"rooftree optimize {asked} --commit threshold:0.6,0.9 --quality-floor 0.5 {other} --json"
    ).answer
    (choice,) = found["choices"]
    assert choice["commit"] == "threshold" and choice["against"] == "llama-3.1-8b"
    threshold = choice["at"]["confidence"]
    alone = user(f"rooftree breakeven {asked} --commit threshold:{threshold} {other} --json").answer
    (point,) = alone["breakeven"]["points"] if "breakeven" in alone else alone["points"]
    assert abs(point["speedup"] / choice["speedup"] - 1.0) < 1e-9
    assert point["pays"] == (choice["speedup"] > 1.0)


def test_dream_does_not_take_what_was_published_of_llada_in_silence(user):
    said = user("rooftree breakeven --model dream-7b --method fast-dllm --batch 1").out
    assert "borrowed, published of llada-8b: 2.77" in said
    own = user("rooftree breakeven --model dream-7b --method d3llm --batch 1").out
    assert "of dream-7b 5.01 was published" in own


def test_what_a_masked_model_is_asked_wrongly_says_what_it_needs(user):
    asked = "--model dream-7b --method fast-dllm"
    load = "--rate 1 --count 5 --prompt-tokens 50 --output-tokens 64"
    assert "along a confidence trace" in user(f"rooftree simulate {asked} {load}", code=2).err
    shipped = "--trace confidence/masked-names--plain --batch 1"
    other = user(f"rooftree predict {asked} {shipped}", code=2).err
    assert "must be as recorded, none" in other and "state the recorded one" in other
    assert user(f"rooftree predict {asked} {shipped} --cache none --json").answer["predictions"]
    assert "no shipped recording" in user("rooftree traces list --method fast-dllm", code=2).err
