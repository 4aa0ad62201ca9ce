"""The same thing has the same name in every verb."""

import pytest

from app.cli.main import command, main
from app.questions.groups import DeploymentOptions, DraftingOptions, names_in
from app.questions.resolve.chosen_configuration import DEPLOYMENT_FIELDS
from hardware_profiles.errors import InputError

VALUES = {
    "device": "l4",
    "engine": "sglang",
    "dtype": "fp8",
    "kv_dtype": "fp8",
    "draft_dtype": "fp8",
    "tp": 2,
    "pp": 2,
    "ep": 2,
    "dp": 2,
    "cp": 2,
    "split_verify": False,
    "shared_prefix": 64,
    "host_weights": 0.5,
    "max_loras": 4,
    "max_lora_rank": 32,
    "fidelity": "datasheet",
    "draft": "llama-3.2-1b",
    "draft_passes": 3,
    "draft_bytes": 1e9,
    "draft_name": "mine",
    "exit_layer": 4,
}


def words(name, value):
    option = name.replace("_", "-")
    if value is False:
        return [f"--no-{option}"]
    return [f"--{option}", str(value)]


@pytest.fixture
def written(monkeypatch):
    """The sections that `simulate` reads from words, before they are checked against each other."""
    read = []

    def checked(sections, file=None):
        read.append(sections)
        raise InputError("stops here")

    monkeypatch.setattr("app.questions.resolve.scenarios.checked_scenario", checked)

    def ask(*options):
        assert main(["simulate", "--model", "llama-3.1-8b", "--rate", "1", *options]) == 2
        return read.pop()

    return ask


@pytest.mark.parametrize("name", VALUES)
def test_simulate_takes_what_predict_takes_and_means_the_key(name, written, capsys):
    section, key = (
        ("deployment", DEPLOYMENT_FIELDS[name])
        if name in DEPLOYMENT_FIELDS and name in names_in(DeploymentOptions)
        else ("speculation", name)
    )
    named = written(*words(name, VALUES[name]))
    assert named[section][key] == VALUES[name]
    assigned = written("--set", f"{section}.{key}={str(VALUES[name]).lower()}")
    assert str(assigned[section][key]).lower() == str(named[section][key]).lower()
    assert named != written(), "an option that nothing reads"
    capsys.readouterr()


def test_every_option_of_the_groups_is_tried():
    assert {*VALUES} == {*names_in(DeploymentOptions), *names_in(DraftingOptions)} - {"as_family"}


@pytest.mark.parametrize("verb", ["predict", "capacity"])
@pytest.mark.parametrize("length", ["prompt", "output"])
def test_lengths_have_the_name_that_simulate_has(verb, length):
    options = [option for each in command().commands[verb].params for option in each.opts]
    assert f"--{length}-tokens" in options
    assert f"--{length}" in options, "the name of earlier versions"


@pytest.mark.parametrize(
    "verb",
    [
        ("predict", "--model", "gpt2", "--draft-tokens", "0"),
        ("capacity", "--model", "gpt2", "--rate", "1", "--prompt", "9", "--output", "9"),
    ],
    ids=lambda verb: verb[0],
)
def test_a_short_name_of_a_device_is_read_and_said(rooftree, verb):
    done = rooftree(*verb, "--device", "H200", "--json")
    assert done.err == "H200 is read as h200-sxm\n"
    assert done.answer["inputs"]["device"] == "h200-sxm"
    assert rooftree(*verb, "--device", "h200-sxm", "--json").err == ""


PLAIN = ("--model", "llama-3.1-8b", "--draft-tokens", "0")


@pytest.mark.parametrize(
    "verb",
    [
        ("predict",),
        ("optimize", "--batch", "8", "--drafter", "eagle-3"),
        ("optimize", "--batch", "8"),
        ("capacity", "--rate", "1", "--prompt", "9", "--output", "9", "--method", "eagle-3"),
        ("capacity", "--rate", "1", "--prompt", "9", "--output", "9", "--drafter", "eagle-3"),
        ("simulate", "--count", "2", "--output-tokens", "4"),
        ("export", "vllm", "--method", "eagle-3"),
    ],
    ids=" ".join,
)
def test_zero_draft_tokens_are_plain_decoding(rooftree, tmp_path, verb):
    done = rooftree(*verb, *PLAIN, "--out", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    assert "chain" not in done.out


def test_zero_stands_beside_other_lengths(rooftree, tmp_path):
    words = (
        "optimize",
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle-3",
        "--batch",
        "8",
        "--json",
    )
    with_zero, without = (
        rooftree(*words, "--draft-tokens", lengths, "--out", tmp_path).answer
        for lengths in ("0,3", "3")
    )
    assert with_zero["choices"] == without["choices"]


@pytest.mark.parametrize("verb", ["predict", "optimize"])
def test_limits_bring_both_latencies_into_the_table(rooftree, tmp_path, verb):
    words = (verb, "--model", "llama-3.1-8b", "--drafter", "eagle-3", "--batch", "1,64")
    limits = ("--slo-tpot", "4", "--out", tmp_path)
    assert "TTFT" not in rooftree(*words, "--out", tmp_path).out
    shown = rooftree(*words, *limits).out
    assert "TPOT" in shown and "TTFT" in shown and "mean TPOT <= 4 ms" in shown
    assert max(map(len, shown.partition("brackets")[0].splitlines())) <= 100
    answer = rooftree(*words, *limits, "--json").answer
    for row in answer["predictions"] if verb == "predict" else []:
        assert row["tpot_s"] == pytest.approx(row["batch"] / row["tokens_per_s"])
        assert row["meets_limits"] == (row["tpot_s"] <= 0.004) and row["ttft_s"] > row["step_s"]
    for cell in answer["cells"] if verb == "optimize" else []:
        assert cell["winner"]["tpot_s"] <= 0.004 < cell["winner"]["ttft_s"]
