import shlex

import pytest

from app.exporters.llama_cpp import FLAGS
from app.exporters.registry import export
from costmodel.configuration import DeploymentNames
from costmodel.method import Stop
from hardware_profiles.errors import InputError, UnknownNameError

RATES = (0.7, 0.5, 0.4, 0.3, 0.2)


def flags_of(choice, version="new", **options):
    parts = shlex.split(export(choice, "llama.cpp", version, **options).command)
    assert len(parts) % 2 == 1
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_chain_drafts_exactly_k_in_both_spellings(build):
    choice = build("speculative-decoding", model="t.gguf", draft_model="d.gguf", max_batch=4)
    assert flags_of(choice) == {
        "--model": "t.gguf",
        "--parallel": "4",
        "--spec-type": "draft-simple",
        "--spec-draft-model": "d.gguf",
        "--spec-draft-n-max": "5",
        "--spec-draft-n-min": "0",
        "--spec-draft-p-min": "0",
    }
    assert flags_of(choice, "old") == {
        "--model": "t.gguf",
        "--parallel": "4",
        "--model-draft": "d.gguf",
        "--draft-max": "5",
        "--draft-min": "0",
        "--draft-p-min": "0",
    }


@pytest.mark.parametrize("version", FLAGS)
def test_the_two_spellings_share_no_drafting_flag(version):
    other = next(each for each in FLAGS if each != version)
    assert set(FLAGS[version].values()).isdisjoint(FLAGS[other].values())
    assert set(FLAGS["new"]) <= set(FLAGS["old"])


def test_a_threshold_becomes_the_least_draft_probability(build):
    assert (
        flags_of(build("eagle-3", stop=Stop(rule="probability", at=0.25)))["--spec-draft-p-min"]
        == "0.25"
    )
    with pytest.raises(InputError, match="confidence"):
        flags_of(build("n-gram", ngram_max=1, stop=Stop(rule="probability", at=0.25)))


def test_hub_names_and_files_have_flags_of_their_own(build):
    flags = flags_of(build("eagle-3", model="ggml-org/Llama-8B:Q4_K_M", draft_model="./d.gguf"))
    assert flags["--hf-repo"] == "ggml-org/Llama-8B:Q4_K_M"
    assert flags["--spec-draft-model"] == "./d.gguf"
    assert (
        flags_of(build("mtp", model="unsloth/GLM-4.5-Air-GGUF"))["--hf-repo"]
        == "unsloth/GLM-4.5-Air-GGUF"
    )


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.1-8B-Instruct", "/models/safetensors", "llama-3.1-8b"]
)
def test_what_holds_no_gguf_is_marked_and_the_way_to_one_is_said(build, name):
    result = export(build("speculative-decoding", model=name, draft_model="my/head"), "llama.cpp")
    assert "--model PATH_OF_THE_TARGET.gguf" in result.command
    assert "--spec-draft-model PATH_OF_THE_DRAFT_MODEL.gguf" in result.command
    made = [note for note in result.notes if "convert_hf_to_gguf" in note]
    assert len(made) == 2 and "my/head" in made[1]


def test_formats_and_lengths_are_spelt_for_all_slots(build):
    where = DeploymentNames(model="t.gguf", dtype="int4", kv_dtype="int8")
    result = export(build("mtp", deployment=where, max_batch=4, max_length=2048), "llama.cpp")
    assert "--cache-type-k q8_0 --cache-type-v q8_0 --ctx-size 8192 --parallel 4" in result.command
    assert any("stored so" in note for note in result.notes)
    with pytest.raises(InputError, match="caches in"):
        export(
            build("mtp", deployment=DeploymentNames(model="t.gguf", kv_dtype="fp8")), "llama.cpp"
        )


@pytest.mark.parametrize("variant", ["ngram-mod", "ngram-map-k", "ngram-map-k4v"])
def test_other_lookups_have_flags_of_their_own(build, variant):
    choice = build("n-gram", ngram_min=3, ngram_max=3, draft_tokens=8, model="t.gguf")
    words = shlex.split(export(choice, "llama.cpp", variant=variant).command)
    own = [word for word in words if word.startswith("--spec-ngram")]
    assert words[words.index("--spec-type") + 1] == variant
    assert own and all(word.startswith(f"--spec-{variant}-") for word in own)
    with pytest.raises(InputError, match="exists from new"):
        export(choice, "llama.cpp", "old", variant=variant)
    with pytest.raises(InputError, match="ngram-simple, ngram-mod"):
        export(choice, "llama.cpp", variant="ngram-magic")


def test_ngrams_have_one_length(build):
    flags = flags_of(build("n-gram", ngram_min=3, ngram_max=3, draft_tokens=8))
    assert (flags["--spec-type"], flags["--spec-ngram-simple-size-n"]) == ("ngram-simple", "3")
    assert flags["--spec-ngram-simple-size-m"] == flags["--spec-draft-n-max"] == "8"
    old = flags_of(build("n-gram", ngram_min=3, ngram_max=3), "old")
    assert (old["--spec-ngram-size-n"], old["--spec-ngram-size-m"], old["--draft-max"]) == (
        "3",
        "5",
        "5",
    )
    with pytest.raises(InputError, match="one length"):
        flags_of(build("n-gram", ngram_min=1, ngram_max=3))
    assert flags_of(build("n-gram"), approximate=True)["--spec-ngram-simple-size-n"] == "3"


@pytest.mark.parametrize("version", FLAGS)
def test_nothing_shorter_is_drafted_than_what_is_looked_up(build, version):
    """The engine throws such drafts away: a server that was started so would decode plainly."""
    choice = build("n-gram", ngram_min=3, ngram_max=3, draft_tokens=2)
    with pytest.raises(
        InputError, match="drafts no fewer tokens than it looks up, ngram_max = 3"
    ) as caught:
        flags_of(choice, version)
    assert caught.value.key == "draft_tokens"
    flags = flags_of(choice, version, approximate=True)
    sizes = "--spec-ngram-simple-size" if version == "new" else "--spec-ngram-size"
    assert flags[f"{sizes}-n"] == flags[f"{sizes}-m"] == "2"
    assert "--spec-ngram-map-k-size-n" not in flags
    if version == "new":
        assert flags_of(choice, variant="ngram-map-k")["--spec-ngram-map-k-size-n"] == "3"


def test_mtp_needs_no_draft_model(build):
    flags = flags_of(build("mtp"))
    assert flags["--spec-type"] == "draft-mtp"
    assert "--spec-draft-model" not in flags


@pytest.mark.parametrize("version", FLAGS)
@pytest.mark.parametrize("method", ["medusa", "sequoia", "early_exit", "eagle3"])
def test_methods_are_refused_where_there_is_no_type_for_them(build, version, method):
    if (version, method) == ("new", "eagle3"):
        assert flags_of(build(method), version)["--spec-type"] == "draft-eagle3"
    else:
        with pytest.raises(InputError, match=f"llama.cpp {version}") as caught:
            flags_of(build(method), version)
        assert caught.value.key == "method"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"schedule": ((1, 4, 5), (5, 8, 1))}, "schedule"),
        ({"tensor_parallel": 2}, "tensor_parallel"),
    ],
)
def test_what_a_server_has_one_of_cannot_vary(build, changes, key):
    with pytest.raises(InputError) as caught:
        flags_of(build(**changes))
    assert caught.value.key == key


def test_trees_are_refused_even_as_an_approximation(build, binary_tree):
    with pytest.raises(InputError, match="one chain"):
        flags_of(build(tree=binary_tree), approximate=True)


def test_synthetic_rates_are_unconditional_and_new(build):
    choice = build("eagle-3", acceptance_by_depth=RATES)
    rates = flags_of(choice, synthetic=True)["--spec-synth-rates"]
    assert tuple(map(float, rates.split(","))) == RATES
    with pytest.raises(InputError, match="newer builds"):
        flags_of(build("speculative-decoding", acceptance_by_depth=RATES), "old", synthetic=True)
    with pytest.raises(InputError, match="one rate per draft token"):
        flags_of(build("eagle-3"), synthetic=True)


def test_plain_decoding_and_unknown_versions(build):
    assert set(flags_of(build("plain-decoding", model="t.gguf"))) == {"--model"}
    with pytest.raises(UnknownNameError, match="new"):
        export(build(), "llama.cpp", "b10488")
