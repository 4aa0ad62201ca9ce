import itertools
import json
import shlex

import pytest

from app.exporters.registry import export
from app.exporters.sglang import ADAPTIVE_FILE, SCRIPT_FILE, captured_batches, dynamic_shape
from app.exporters.tree_paths import rank_paths
from costmodel.method import Stop
from hardware_profiles.errors import InputError

SCHEDULE = ((1, 16, 5), (17, 64, 3), (65, 512, 0))


def flags_of(choice, **options):
    """Flag to value, one string each; the values of a list flag stay joined by spaces."""
    flags = {}
    for part in shlex.split(export(choice, "sglang", **options).command):
        if part.startswith("--"):
            name, flags[part] = part, ""
        elif flags:
            flags[name] = f"{flags[name]} {part}".strip()
    return flags


@pytest.fixture(scope="session")
def flag_fields(published):
    """Fields of SGLang's arguments that have a flag, by group."""
    return json.loads((published / "sglang_options.json").read_text())


@pytest.mark.parametrize("tokens", [1, 3, 7])
def test_the_root_is_counted(build, tokens):
    flags = flags_of(build(draft_tokens=tokens))
    assert flags["--speculative-num-steps"] == str(tokens)
    assert flags["--speculative-num-draft-tokens"] == str(tokens + 1)
    assert flags["--speculative-eagle-topk"] == "1"


@pytest.mark.parametrize("method", ["eagle3", "mtp", "draft_model", "ngram"])
def test_every_speculative_flag_is_one_that_sglang_has(build, flag_fields, method):
    choice = build(method, **({"schedule": SCHEDULE} if method in {"eagle3", "mtp"} else {}))
    for flag in flags_of(choice):
        field = flag.removeprefix("--").replace("-", "_")
        if field.startswith("speculative_"):
            assert field in flag_fields["speculative"]
    assert "max_running_requests" in flag_fields["schedule"]


@pytest.mark.parametrize(
    ("method", "algorithm"),
    [("eagle3", "EAGLE3"), ("mtp", "NEXTN"), ("draft_model", "STANDALONE"), ("ngram", "NGRAM")],
)
def test_methods_have_their_sglang_names(build, method, algorithm):
    assert flags_of(build(method))["--speculative-algorithm"] == algorithm


def test_running_requests_are_those_that_were_stated_and_a_silent_limit_is_said(build):
    assert flags_of(build(max_batch=200))["--max-running-requests"] == "200"
    assert flags_of(build("plain-decoding", max_batch=200))["--max-running-requests"] == "200"
    for choice, largest in (
        (build(), ""),
        (build(batch=64), "to 64"),
        (build(schedule=SCHEDULE), "to 512"),
    ):
        result = export(choice, "sglang")
        assert "--max-running-requests" not in flags_of(choice)
        assert any("at most 48 requests" in note and largest in note for note in result.notes)
    assert "--max-running-requests" not in flags_of(build("plain-decoding", batch=64))


def test_a_schedule_is_one_step_count_per_slot(build):
    result = export(build(schedule=SCHEDULE), "sglang")
    slots = json.loads(result.files[ADAPTIVE_FILE])
    assert slots == {
        "1": {"candidate_steps": [5]},
        "17": {"candidate_steps": [3]},
        "65": {"candidate_steps": [0]},
    }
    flags = flags_of(build(schedule=SCHEDULE))
    assert [int(flags["--speculative-num-steps"])] in [
        slot["candidate_steps"] for slot in slots.values()
    ]
    assert flags["--speculative-adaptive-config"] == ADAPTIVE_FILE


def test_captured_batches_hold_the_end_of_every_range_and_nothing_too_large(build):
    choice = build(schedule=((1, 3, 5), (4, 17, 4), (18, 33, 3), (34, 90, 0)))
    sizes = captured_batches(choice, 60)
    assert {3, 17, 33, 60} <= set(sizes)
    assert sizes == sorted(set(sizes)) and sizes[0] == 1 and sizes[-1] == 60


@pytest.mark.parametrize("method", ["draft_model", "ngram"])
def test_only_eagle_and_mtp_follow_a_schedule(build, method):
    with pytest.raises(InputError, match="follow a schedule"):
        export(build(method, schedule=SCHEDULE), "sglang")
    assert ADAPTIVE_FILE not in export(build(method, schedule=((1, 64, 5),)), "sglang").files


def test_static_trees_are_refused_or_marked_as_approximated(build, lopsided_tree):
    choice = build(tree=lopsided_tree)
    with pytest.raises(InputError, match="cannot load a static one"):
        export(choice, "sglang")
    result = export(choice, "sglang", approximate=True)
    flags = flags_of(choice, approximate=True)
    steps, topk = int(flags["--speculative-num-steps"]), int(flags["--speculative-eagle-topk"])
    assert (steps, flags["--speculative-num-draft-tokens"]) == (3, "6")
    assert topk + (steps - 1) * topk**2 >= 5
    assert any(note.startswith("APPROXIMATION") for note in result.notes)
    assert "APPROXIMATION" in result.files[SCRIPT_FILE]


def test_a_dynamic_tree_can_always_hold_the_static_one(tree_of):
    wide = rank_paths(tree_of([(rank,) for rank in range(9)]))
    assert dynamic_shape(wide) == (1, 9)
    levels = [itertools.product(range(2), repeat=level) for level in range(1, 5)]
    full = rank_paths(tree_of([path for level in levels for path in level]))
    assert (len(full), dynamic_shape(full)) == (30, (4, 3))
    comb = rank_paths(tree_of([(0,), (1,), (0, 0), (1, 0), (0, 0, 0), (1, 0, 0)]))
    steps, topk = dynamic_shape(comb)
    assert steps == 3 and topk + (steps - 1) * topk**2 >= len(comb)


def test_ngram_drafts_one_branch_and_says_what_is_lost(build):
    flags = flags_of(build("n-gram", ngram_max=20))
    assert flags["--speculative-num-draft-tokens"] == "6"
    assert flags["--speculative-ngram-max-bfs-breadth"] == "1"
    assert flags["--speculative-ngram-max-trie-depth"] == "25"
    with pytest.raises(InputError, match="one token"):
        export(build("n-gram", ngram_min=2), "sglang")
    loose = export(build("n-gram", ngram_min=2), "sglang", approximate=True)
    assert any("APPROXIMATION" in note for note in loose.notes)


@pytest.mark.parametrize("method", ["medusa", "early-exit"])
def test_methods_sglang_does_not_have_are_refused(build, method):
    with pytest.raises(InputError, match=r"sglang 0\.5\.23") as caught:
        export(build(method), "sglang")
    assert (caught.value.key, caught.value.value) == ("method", method)


def test_a_tree_of_ngrams_and_a_threshold_are_refused(build, binary_tree):
    with pytest.raises(InputError, match="trie"):
        export(build("n-gram", tree=binary_tree), "sglang", approximate=True)
    with pytest.raises(InputError, match="confidence"):
        export(build(stop=Stop(rule="probability", at=0.1)), "sglang")


def test_synthetic_acceptance_counts_the_bonus_token(build):
    command = export(
        build(acceptance_by_depth=(0.7, 0.5, 0.4, 0.3, 0.2)), "sglang", synthetic=True
    ).command
    assert command.startswith(
        "SGLANG_SIMULATE_ACC_LEN=3.1 SGLANG_SIMULATE_ACC_METHOD=match-expected "
    )
    rates = (0.5,) * 5
    for choice in (
        build(schedule=SCHEDULE, acceptance_by_depth=rates),
        build("n-gram", acceptance_by_depth=rates),
    ):
        with pytest.raises(InputError, match="one simulated acceptance length"):
            export(choice, "sglang", synthetic=True)


def test_plain_decoding_sets_no_speculative_flag(build):
    result = export(build("plain-decoding", tensor_parallel=4, max_batch=300), "sglang")
    assert set(result.files) == {SCRIPT_FILE}
    assert shlex.split(result.command)[3:] == [
        "--model-path",
        "meta-llama/Llama-3.1-8B",
        "--tp-size",
        "4",
        "--max-running-requests",
        "300",
    ]


def test_a_length_that_follows_what_was_accepted_is_written_as_tiers(build):
    written = export(build(draft_tokens=6, stop=Stop(rule="ema", at=0.1)), "sglang")
    assert json.loads(written.files[ADAPTIVE_FILE]) == {
        "1": {"candidate_steps": [1, 3, 5, 6], "up_hysteresis": 0.0, "down_hysteresis": -0.25},
        "ema_alpha": 0.1,
    }
    assert "--speculative-adaptive --speculative-adaptive-config" in written.command
    assert "--speculative-num-steps 6" in written.command
    scheduled = export(build(schedule=SCHEDULE, stop=Stop(rule="ema")), "sglang")
    slots = json.loads(scheduled.files[ADAPTIVE_FILE])
    assert {start: slot["candidate_steps"] for start, slot in slots.items()} == {
        "1": [1, 3, 5],
        "17": [1, 3],
        "65": [0],
    }


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "tensorrt-llm"])
def test_no_other_engine_follows_what_was_accepted(build, engine):
    with pytest.raises(InputError, match="accepted lately"):
        export(build(stop=Stop(rule="ema")), engine)
