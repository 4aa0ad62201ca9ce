import ast
import json
import re

import pytest

from app.exporters.dialect import Dialect
from app.exporters.registry import export
from app.exporters.vllm import CONFIG_FILE, FIELDS, SCRIPT_FILE, check_config
from costmodel.engine_library import load_engine
from costmodel.method import Stop
from hardware_profiles.errors import InputError
from tests.every import every

OPTIONS = load_engine("vllm").options
SCHEDULE = ((1, 16, 5), (17, 64, 3), (65, 512, 0))
RATES = (0.7, 0.5, 0.4, 0.3, 0.2)


@pytest.fixture(scope="session")
def names_by_release(published):
    """By release of vLLM: the fields of its speculative configuration, the methods and groups of
    methods, and the ways to sample that it spells out."""
    names, releases = {"fields": set(), "methods": set(), "samplers": set()}, {}
    listed = json.loads((published / "vllm_options.json").read_text())["releases"]
    for release, changes in listed.items():
        for kind, change in changes.items():
            names[kind] = names[kind] - set(change["gone"]) | set(change["new"])
        releases[release] = dict(names)
    return releases


@pytest.fixture(scope="session")
def shapes(binary_tree, lopsided_tree):
    return {"binary": {"tree": binary_tree}, "lopsided": {"tree": lopsided_tree}, None: {}}


def config_of(choice, version="0.33.0", **options):
    return json.loads(export(choice, "vllm", version, **options).files[CONFIG_FILE])


def test_releases_and_field_gates_are_those_of_the_sources(names_by_release):
    assert tuple(names_by_release) == OPTIONS.releases
    for release, names in names_by_release.items():
        known = {name for name, gate in FIELDS.items() if gate.admits(release)}
        assert known == set(FIELDS) & names["fields"], release


@pytest.mark.parametrize("method", ["ngram", "medusa", "eagle3", "suffix"])
def test_method_gates_are_those_of_the_sources(names_by_release, method):
    for release, names in names_by_release.items():
        assert OPTIONS.drafting[method].releases.admits(release) == (method in names["methods"]), (
            release
        )


def test_synthetic_sampling_is_a_literal_wherever_it_is_written(names_by_release):
    for release, names in names_by_release.items():
        listed, block = (name in names["samplers"] for name in ("synthetic", "block"))
        assert OPTIONS.drafting["block_verification"].releases.admits(release) == block, release
        assert FIELDS["rejection_sample_method"].admits(release) == listed, release


@pytest.mark.parametrize("version", OPTIONS.releases)
@every("method", list(OPTIONS.drafting))
def test_every_release_gets_only_fields_it_has_or_a_refusal(
    build, names_by_release, version, method
):
    wishes = [{}, {"schedule": SCHEDULE}, {"acceptance_by_depth": RATES}]
    for wish in wishes:
        try:
            config = config_of(
                build(method, **wish), version, synthetic="acceptance_by_depth" in wish
            )
        except InputError as error:
            assert f"vllm {version}" in str(error)
            continue
        assert set(config) <= names_by_release[version]["fields"]
        assert config["num_speculative_tokens"] == 5


def test_the_chain_of_k_is_k_tokens(build):
    assert config_of(build(draft_tokens=3)) == {
        "method": "eagle3",
        "num_speculative_tokens": 3,
        "model": "drafts/head",
    }


def test_ngram_states_both_ends_of_the_lookup(build):
    config = config_of(build("n-gram", ngram_min=2, ngram_max=4))
    assert (config["prompt_lookup_min"], config["prompt_lookup_max"]) == (2, 4)
    assert "model" not in config


def test_mtp_takes_its_weights_from_the_target_and_says_what_it_could_not_check(build):
    result = export(build("mtp"), "vllm")
    assert json.loads(result.files[CONFIG_FILE]) == {"method": "mtp", "num_speculative_tokens": 5}
    assert any("n_predict" in note for note in result.notes)


def test_a_schedule_is_written_from_0_24_on(build):
    choice = build(schedule=((1, 8, 5), (9, 16, 5), (33, 512, 0)))
    assert config_of(choice)["num_speculative_tokens_per_batch_size"] == [[1, 32, 5], [33, 512, 0]]
    with pytest.raises(InputError, match=r"0\.24\.0") as caught:
        config_of(choice, "0.23.0")
    assert caught.value.key == "schedule"


def test_requests_at_once_are_limited_where_a_limit_was_stated_and_nowhere_else(build):
    schedule = ((1, 8, 5), (9, 48, 0))
    assert "--max-num-seqs 32 " in export(build(schedule=schedule, max_batch=32), "vllm").command
    open_ended = export(build(schedule=schedule), "vllm")
    assert "--max-num-seqs" not in open_ended.command
    assert any("above 48 were not compared and keep K=0" in note for note in open_ended.notes)
    assert "--max-num-seqs" not in export(build(batch=8), "vllm").command


def test_a_schedule_of_one_k_needs_no_schedule(build):
    config = config_of(build(schedule=((1, 8, 4), (9, 64, 4))), "0.17.1")
    assert config["num_speculative_tokens"] == 4


def test_trees_are_strings_of_root_excluded_paths(build, binary_tree):
    config = config_of(build(tree=binary_tree), "0.20.2")
    paths = ast.literal_eval(config["speculative_token_tree"])
    assert paths == [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert config["num_speculative_tokens"] == len(paths) == 6


@pytest.mark.parametrize(
    ("asked", "key", "rule"),
    [
        (("0.33.0", "eagle3", "binary"), "tree", "0.20.2"),
        (("0.21.0", "eagle3", "binary"), "tree", "42121"),
        (("0.20.2", "eagle3", "lopsided"), "tree", "same number of children"),
        (("0.20.2", "draft_model", "binary"), "tree", "eagle3"),
        (("0.33.0", "medusa", None), "method", "0.32.0"),
        (("0.14.1", "draft_model", None), "method", "0.15.1"),
        (("0.9.0", "eagle3", None), "method", "0.9.2"),
        (("0.9.2", "mtp", None), "method", "0.11.2"),
        (("0.33.0", "sequoia", None), "method", "runs"),
        (("0.33.0", "early_exit", None), "method", "runs"),
    ],
)
def test_what_a_release_cannot_express_is_refused(build, shapes, asked, key, rule):
    version, method, shape = asked
    with pytest.raises(InputError, match=re.escape(rule)) as caught:
        export(build(method, **shapes[shape]), "vllm", version)
    assert caught.value.key == key
    assert f"vllm {version}" in str(caught.value)


def test_another_implementation_is_named_from_the_release_that_has_it(build):
    assert config_of(build("n-gram"), variant="ngram_gpu")["method"] == "ngram_gpu"
    with pytest.raises(InputError, match=r"0\.20\.2"):
        config_of(build("n-gram"), "0.17.1", variant="ngram_gpu")
    with pytest.raises(InputError, match="as ngram, ngram_gpu"):
        config_of(build("n-gram"), variant="ngram_cpu")
    with pytest.raises(InputError, match="ignores a schedule"):
        config_of(build("n-gram", schedule=SCHEDULE), variant="ngram_gpu")


def test_variants_are_gated_as_the_sources_are(names_by_release):
    for release, names in names_by_release.items():
        group = "NgramGPUTypes" in names["methods"]
        assert OPTIONS.drafting["ngram"].variants["ngram_gpu"].admits(release) == group, release
        blocks = "DFlashModelTypes" in names["methods"]
        assert OPTIONS.drafting["dflash"].releases.admits(release) == blocks, release


def test_parallel_drafts_and_suffixes_are_written(build):
    assert config_of(build("pard"))["parallel_drafting"] is True
    assert config_of(build("suffix-decoding", draft_tokens=24)) == {
        "method": "suffix",
        "num_speculative_tokens": 24,
    }
    assert config_of(build("dflash", draft_tokens=15))["method"] == "dflash"
    block = config_of(build("block-verification"), "0.25.1")
    assert (block["method"], block["rejection_sample_method"]) == ("draft_model", "block")
    with pytest.raises(InputError, match=r"0\.25\.1"):
        config_of(build("block-verification"), "0.24.0")
    with pytest.raises(InputError, match="one way to reject"):
        config_of(build("block-verification", acceptance_by_depth=RATES), synthetic=True)


def test_under_synthetic_acceptance_no_weights_of_a_drafter_are_read(build):
    choice = build(acceptance_by_depth=RATES)
    assert config_of(choice, synthetic=True)["draft_load_config"] == {"load_format": "dummy"}
    assert "draft_load_config" not in config_of(
        build("n-gram", acceptance_by_depth=RATES), synthetic=True
    )
    assert "draft_load_config" not in config_of(choice)


def test_a_schedule_for_medusa_and_a_threshold_are_refused(build):
    with pytest.raises(InputError, match="medusa"):
        export(build("medusa", schedule=SCHEDULE), "vllm", "0.32.0")
    with pytest.raises(InputError, match="confidence"):
        export(build(stop=Stop(rule="probability", at=0.4)), "vllm")


@pytest.mark.parametrize("name", ["org/EAGLE-x", "org/my-eagle3-draft", "org/dflash"])
def test_a_draft_model_that_vllm_would_take_for_another_method_is_refused(build, name):
    with pytest.raises(InputError, match="not run as draft_model"):
        export(build("speculative-decoding", draft_model=name), "vllm")
    assert config_of(build("eagle-3", draft_model=name))["model"] == name


def test_a_release_between_two_is_held_to_both(build):
    result = export(build("n-gram"), "vllm", "0.28.0")
    assert result.checked_against == ("0.26.0", "0.29.0")
    with pytest.raises(InputError, match=r"0\.24\.0"):
        export(build(schedule=SCHEDULE), "vllm", "0.23.5")
    with pytest.raises(InputError, match=r"0\.8\.5 to 0\.33\.0"):
        export(build("n-gram"), "vllm", "0.34.0")


def test_synthetic_rates_are_unconditional_and_as_many_as_draft_tokens(build):
    config = config_of(build(acceptance_by_depth=RATES), synthetic=True)
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_rates"] == list(RATES)
    for rates in (None, RATES[:-1], (*RATES, 0.1)):
        with pytest.raises(InputError, match="one rate per draft token"):
            config_of(build(acceptance_by_depth=rates), synthetic=True)
    with pytest.raises(InputError, match=r"0\.20\.2"):
        config_of(build(acceptance_by_depth=RATES), "0.17.1", synthetic=True)


def test_synthetic_needs_a_chain(build, binary_tree):
    for choice in (
        build("plain-decoding"),
        build(tree=binary_tree, acceptance_by_depth=(0.5,) * 6),
    ):
        with pytest.raises(InputError, match="chain"):
            export(choice, "vllm", "0.20.2", synthetic=True)


@pytest.mark.parametrize("method", ["plain", "eagle3", "ngram"])
def test_drafting_nothing_writes_the_script_alone(build, method):
    result = export(build(method, draft_tokens=0, max_batch=256), "vllm")
    assert set(result.files) == {SCRIPT_FILE}
    assert "speculative" not in result.command
    assert "--max-num-seqs 256" in result.command
    assert any("no speculative config" in note for note in result.notes)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"num_speculative_token": 3}, "num_speculative_token"),
        ({"num_speculative_tokens": 0}, "num_speculative_tokens"),
        ({"num_speculative_tokens": "3"}, "num_speculative_tokens"),
        ({"synthetic_acceptance_rates": [1.2]}, "synthetic_acceptance_rates"),
        (
            {"num_speculative_tokens_per_batch_size": [[1, 2]]},
            "num_speculative_tokens_per_batch_size",
        ),
        ({"speculative_token_tree": "[(0,)]"}, "speculative_token_tree"),
    ],
)
def test_the_field_table_rejects_what_vllm_rejects(config, key):
    with pytest.raises(InputError) as caught:
        check_config(config, Dialect(engine="vllm", version="0.33.0", releases=("0.33.0",)))
    assert caught.value.key == key
