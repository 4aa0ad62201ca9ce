import shlex

import pytest
import yaml

from app.exporters.registry import export
from app.exporters.tensorrt_llm import CONFIG_FILE, SCRIPT_FILE
from costmodel.engine_library import load_engine
from costmodel.method import Shape, Stop
from hardware_profiles.errors import InputError


def config_of(choice, version="1.3.0rc27", **options):
    return yaml.safe_load(export(choice, "tensorrt-llm", version, **options).files[CONFIG_FILE])[
        "speculative_config"
    ]


def follows_the_rules(config):
    """What the engine itself checks of a schedule and of a tree before it starts."""
    assert config["max_draft_len"] > 0
    schedule = config.get("draft_len_schedule")
    if schedule is not None:
        assert list(schedule) == sorted(schedule) and min(schedule) >= 1
        assert schedule[min(schedule)] == config["max_draft_len"] == max(schedule.values())
    if "dynamic_tree_max_topK" in config:
        most = config["dynamic_tree_max_topK"] * config["max_draft_len"]
        assert config["max_draft_len"] <= config["max_total_draft_tokens"] <= most
    choices = [tuple(path) for path in config.get("eagle_choices", [])]
    assert {path[:-1] for path in choices} <= {(), *choices}
    return True


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            "draft_model",
            {
                "decoding_type": "Draft_Target",
                "max_draft_len": 5,
                "speculative_model": "drafts/head",
            },
        ),
        ("ngram", {"decoding_type": "NGram", "max_draft_len": 5, "max_matching_ngram_size": 3}),
        (
            "eagle3",
            {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "drafts/head"},
        ),
        ("mtp", {"decoding_type": "MTP", "max_draft_len": 5}),
    ],
)
def test_a_chain_of_k_is_a_draft_length_of_k(build, method, expected):
    config = config_of(build(method))
    assert config == expected
    assert follows_the_rules(config)


def test_a_schedule_says_up_to_which_batch_and_drops_a_last_zero(build):
    config = config_of(build(schedule=((1, 16, 5), (17, 64, 3), (65, 512, 0))))
    assert config["draft_len_schedule"] == {16: 5, 64: 3}
    assert follows_the_rules(config)


def test_a_last_range_with_drafts_reaches_to_the_largest_batch_of_the_server(build):
    choice = build(schedule=((1, 16, 5), (17, 64, 3)), max_batch=256)
    assert config_of(choice)["draft_len_schedule"] == {16: 5, 256: 3}
    assert "--max_batch_size 256" in export(choice, "tensorrt-llm").command
    bounded = build(schedule=((1, 16, 5), (17, 64, 3)))
    assert config_of(bounded)["draft_len_schedule"] == {
        16: 5,
        2048: 3,
    }  # its own limit: above the last key is no draft
    assert "--max_batch_size" not in export(bounded, "tensorrt-llm").command


def test_k_may_pass_through_zero_and_rise_again_below_the_first(build):
    config = config_of(build(schedule=((1, 4, 4), (5, 8, 0), (9, 64, 2))))
    assert config["draft_len_schedule"] == {4: 4, 8: 0, 2048: 2}
    assert follows_the_rules(config)


@pytest.mark.parametrize("schedule", [((1, 4, 2), (5, 64, 5)), ((1, 4, 0), (5, 64, 5))])
def test_a_k_above_the_first_is_refused(build, schedule):
    with pytest.raises(InputError, match="smallest key") as caught:
        export(build(schedule=schedule), "tensorrt-llm")
    assert caught.value.key == "draft_len_schedule"
    assert caught.value.value == schedule


def test_static_trees_are_root_excluded_paths_until_1_4(build, lopsided_tree):
    choice = build(tree=lopsided_tree)
    config = config_of(choice)
    assert config["eagle_choices"] == [[0], [1], [0, 0], [0, 1], [0, 0, 0]]
    assert config["max_draft_len"] == 3
    assert follows_the_rules(config)
    for version in ("1.4.0rc1", "1.3.0"):
        with pytest.raises(InputError, match=r"removed in 1\.4") as caught:
            export(choice, "tensorrt-llm", version)
        assert caught.value.key == "tree"


@pytest.mark.parametrize("method", ["eagle3", "mtp"])
def test_later_trees_can_be_approximated_by_dynamic_ones(build, lopsided_tree, method):
    choice = build(method, tree=lopsided_tree)
    config = config_of(choice, "1.4.0rc1", approximate=True)
    assert (config["max_draft_len"], config["max_total_draft_tokens"]) == (3, 5)
    assert follows_the_rules(config)
    notes = export(choice, "tensorrt-llm", "1.4.0rc1", approximate=True).notes
    assert any(note.startswith("APPROXIMATION") for note in notes)


@pytest.mark.parametrize("method", ["plain", "eagle3"])
def test_drafting_nothing_writes_the_script_alone(build, method):
    result = export(build(method, draft_tokens=0, tensor_parallel=2, max_batch=8), "tensorrt-llm")
    assert set(result.files) == {SCRIPT_FILE}
    assert shlex.split(result.command)[2:] == ["--tp_size", "2", "--max_batch_size", "8"]


@pytest.mark.parametrize("method", ["medusa", "sequoia", "early_exit"])
@pytest.mark.parametrize("version", load_engine("tensorrt-llm").options.releases)
def test_methods_of_other_engines_are_refused(build, method, version):
    with pytest.raises(InputError, match=f"tensorrt-llm {version}") as caught:
        export(build(method), "tensorrt-llm", version)
    assert caught.value.key == "method"


def test_what_was_not_read_for_1_4_is_refused_there(build):
    for method in ("ngram", "draft_model"):
        with pytest.raises(InputError, match="not read"):
            export(build(method), "tensorrt-llm", "1.4.0rc1")
    for version in ("1.2.0", "1.3.0rc7", "1.4.0"):
        with pytest.raises(InputError, match=r"1\.3\.0rc27 to 1\.4\.0rc1"):
            export(build(), "tensorrt-llm", version)


def test_the_shortest_ngram_is_one_token(build):
    with pytest.raises(InputError, match="one token"):
        export(build("n-gram", ngram_min=2), "tensorrt-llm")
    notes = export(build("n-gram", ngram_min=2), "tensorrt-llm", approximate=True).notes
    assert any("APPROXIMATION" in note for note in notes)


def test_synthetic_acceptance_forces_the_draft_tokens_that_are_kept(build):
    """The engine counts accepted draft tokens: the mean length without the target's own token."""
    result = export(
        build(acceptance_by_depth=(0.7, 0.5, 0.4, 0.3, 0.2)), "tensorrt-llm", synthetic=True
    )
    assert "export TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=2.1\n" in result.files[SCRIPT_FILE]
    for refused in (
        build("n-gram", acceptance_by_depth=(0.5,) * 5),
        build(acceptance_by_depth=(0.5,) * 5, schedule=((1, 8, 5), (9, 64, 0))),
    ):
        with pytest.raises(InputError, match="accepted tokens"):
            export(refused, "tensorrt-llm", synthetic=True)


def test_suffix_automata_and_parallel_drafts_have_types_of_their_own(build):
    assert config_of(build("sam-decoding")) == {
        "decoding_type": "SA",
        "max_draft_len": 5,
        "max_matching_ngram_size": -1,
    }
    assert config_of(build("pard"))["decoding_type"] == "PARD"
    fixed = config_of(build("n-gram", ngram_min=3, ngram_max=3), variant="SA")
    assert (fixed["decoding_type"], fixed["max_matching_ngram_size"]) == ("SA", 3)
    with pytest.raises(InputError, match="one length"):
        config_of(build("n-gram"), variant="SA")


def test_a_threshold_is_refused(build):
    with pytest.raises(InputError, match="confidence"):
        export(build(stop=Stop(rule="probability", at=0.3)), "tensorrt-llm")


def test_a_tree_for_a_draft_model_is_refused_even_as_an_approximation(build, binary_tree):
    with pytest.raises(InputError, match="belong to eagle3"):
        export(build("speculative-decoding", tree=binary_tree), "tensorrt-llm", approximate=True)


def test_trees_that_are_chosen_at_every_step_have_keys_of_their_own(build):
    asked = build(
        "eagle3", shape=Shape(kind="dynamic_tree", nodes=20, depth=4, width=6), draft_tokens=20
    )
    config = config_of(asked)
    assert (
        config["max_draft_len"],
        config["dynamic_tree_max_topK"],
        config["max_total_draft_tokens"],
    ) == (4, 6, 20)
    assert config["use_dynamic_tree"] and follows_the_rules(config)
    with pytest.raises(InputError, match="dynamic ones to eagle3"):
        export(build("draft_model", shape=asked.shape, draft_tokens=20), "tensorrt-llm")
