"""How sure an answer is: whether runs like it were measured, and the same sentence on every door."""

import pytest

from app.answers.scoring.certainty import BORROWED, MEASURED, UNKNOWN, how_sure
from app.answers.scoring.nearest import FILE, measured_runs, nearest_drafts, nearest_steps
from costmodel.configuration import DeploymentNames
from costmodel.optimizers.drafters.named_drafters import drafter_source
from tests.validation_page import nearest as table
from tests.validation_page.summaries import read


def sure(model, device, engine, drafter=None, context_tokens=1024, **more):
    where = DeploymentNames(model=model, device=device, engine=engine, **more)
    source = None if drafter is None else drafter_source(drafter, model=model)
    return how_sure(where, source, context_tokens=context_tokens)


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        (("llama-3.1-8b", "h100-sxm", "vllm", "eagle-3"), MEASURED),
        (("llama-3.3-70b", "h200-sxm", "sglang", "eagle-3"), MEASURED),
        (("gpt-oss-120b", "h100-sxm", "vllm"), MEASURED),
        (("qwen3-32b", "h100-sxm", "vllm"), MEASURED),
        (("gpt-oss-120b", "h100-sxm", "vllm", "eagle-3"), BORROWED),
        (("qwen3-8b", "h100-sxm", "vllm", "eagle-3:0.7"), BORROWED),
        (("llama-3.1-8b", "l4", "vllm", "n-gram:0.4"), BORROWED),
        (("qwen3-8b", "mi300x", "llama.cpp"), BORROWED),
        (("qwen3-8b", "l4", "llama.cpp"), UNKNOWN),
        (("qwen3-8b", "l4", "llama.cpp", "n-gram:0.4"), UNKNOWN),
    ],
)
def test_what_was_measured_is_told_from_what_is_borrowed(question, verdict):
    assert sure(*question).verdict == verdict


def test_a_changed_device_was_measured_by_nobody():
    changed = sure(
        "llama-3.1-8b",
        "h100-sxm",
        "vllm",
        "eagle-3",
        overrides=("device.bandwidth_bytes_per_s=1e12",),
    )
    assert changed.verdict == BORROWED and "h100-sxm, modified" in changed.sentence


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"dtype": "q4_k_m"}, "with q4_k_m weights"),
        ({"dtype": "fp8"}, "with fp8 weights"),
        ({"max_loras": 4}, "with adapters"),
        ({"context_tokens": 65_536}, "at 65,536 cached tokens"),
    ],
)
def test_runs_of_another_format_or_length_are_borrowed(more, words):
    question = ("llama-3.1-8b", "h100-sxm", "vllm", "eagle-3")
    assert sure(*question, dtype="bf16").verdict == MEASURED
    beyond = sure(*question, **more)
    assert beyond.verdict == BORROWED and words in beyond.sentence


def test_published_heads_are_not_trusted_at_long_contexts():
    """Of a head's own rates, and of layers that were trained with the target, nothing is said."""
    where = ("llama-3.3-70b", "h100-sxm", "vllm")
    long = sure(*where, "eagle-3", context_tokens=16_384)
    assert "measure yours" in long.caution and long.caution in long.sentence
    assert long.caution in long.brief
    assert sure(*where, "eagle-3").caution == ""
    assert sure(*where, "eagle-3:0.7", context_tokens=16_384).caution == ""
    mtp = sure("deepseek-v3", "h200-sxm", "sglang", "mtp", context_tokens=16_384)
    assert mtp.caution == "" and mtp.verdict != MEASURED


def test_the_sentence_is_about_this_question_and_names_sources():
    for model in ("llama-3.1-8b", "qwen3-8b", "gpt-oss-120b"):
        one = sure(model, "h100-sxm", "vllm", "eagle-3")
        assert f"eagle-3 on {model} on h100-sxm in vllm" in one.sentence
        assert all(f"({group.source})" in one.sentence for group in one.nearest)
        assert "acceptance" in one.sentence


def test_nearest_runs_have_nothing_else_than_the_question_and_are_as_narrow_as_can_be():
    names = {"engine": "vllm", "device": "h200-sxm--own-passes", "model": "gpt-oss-120b"}
    assert nearest_steps(names).runs == 218
    wider = nearest_steps(names | {"model": "qwen3-8b"})
    assert (wider.engine, wider.device, wider.model) == ("vllm", "h200-sxm", "")
    drafts = nearest_drafts(names | {"method": "n-gram"})
    assert [group.method for group in drafts] == ["n-gram"] or len(drafts[0].differing(names)) <= 2


def test_runs_of_the_same_drafter_and_target_elsewhere_are_not_left_out():
    one = sure("llama-3.3-70b", "h100-sxm", "vllm", "eagle-3")
    assert [(group.engine, group.model) for group in one.nearest] == [
        ("vllm", "llama-3.1-8b"),
        ("sglang", "llama-3.1-70b"),
        ("vllm", ""),
    ]
    assert "mostly too high (SpecBundle)" in one.sentence


def test_another_format_of_the_same_release_is_the_same_target():
    quantised = sure("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "h100-sxm", "vllm", "eagle-3")
    plain = sure("llama-3.3-70b", "h100-sxm", "vllm", "eagle-3")
    assert quantised.nearest == plain.nearest
    assert "borrowed within" not in quantised.sentence


def test_every_group_of_runs_of_a_question_is_quoted_with_the_worst():
    one = sure("llama-3.1-8b", "h100-sxm", "vllm", "eagle-3")
    assert len(one.nearest) == 2 and "measured by others" in one.sentence
    assert max(group.median_error_ratio for group in one.nearest) > 0.2  # of an earlier release
    own = sure("smollm2-135m", "cpu-amd-epyc--1-thread", "none")
    assert own.verdict == MEASURED and "by others" not in own.sentence


def test_the_table_is_of_the_results_that_validation_shows():
    whole = next(group for group in measured_runs() if not group.named)
    (unseen,) = [row for row in read("unseen_serving") if row["slice"] == "all"]
    assert (whole.measurements, whole.runs) == (unseen["measurements"], unseen["answered"])
    assert whole.median_error_ratio == unseen["tpot_median_error_ratio"]
    committed = FILE.read_text(encoding="utf-8").splitlines()
    names = committed[0].split(",")
    for row in (*table.drafted(), *table.own()):
        written = [
            f"{v:.4f}" if isinstance(v := row[name], float) else str(v or "") for name in names
        ]
        assert ",".join(written) in committed


def test_families_add_up_to_all_runs():
    for quantity in ("tpot", "ttft"):
        own = [group for group in measured_runs() if group.quantity == quantity]
        whole = next(group for group in own if not group.named)
        for parts in (("engine",), ("device",), ("model",), ("engine", "device", "model")):
            groups = [
                group
                for group in own
                if {part for part in ("engine", "device", "model") if getattr(group, part)}
                == set(parts)
            ]
            assert sum(group.measurements for group in groups) == whole.measurements


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "--batch", "8", "--out", "{out}"),
        ("predict", "--model", "qwen3-8b", "--drafter", "eagle-3", "--draft-tokens", "3"),
    ],
)
def test_text_and_json_say_the_same_sentence(rooftree, tmp_path, words):
    words = [word.replace("{out}", str(tmp_path / "out")) for word in words]
    answer = rooftree(*words, "--json").answer
    told = answer["how_sure"]
    one = told[0] if isinstance(told, list) else told
    brief, whole = (" ".join(rooftree(*words, *more).out.split()) for more in ((), ("--explain",)))
    assert f"how sure: {one['verdict']}; {one['sentence']}" in whole
    assert one["sentence"] not in brief
    said = brief.partition(f"how sure: {one['verdict']}; ")[2]
    first, *others = [group["source"] for group in one["nearest"]]
    assert f"({first})" in said
    assert one["verdict"] != MEASURED or all(f"({source})" in said for source in others)
