"""One question for every page, in the words of the command line; files that the server keeps."""

import json
from pathlib import Path

import pytest

from app.dashboard.answers.run.page import asked_run
from app.dashboard.held import (
    MOST_BYTES,
    as_shown,
    hold_config,
    hold_device,
    hold_method,
    is_known_model,
    model_place,
    recording_place,
    understood,
    without_places,
)
from app.dashboard.question import chain, deployment, drafter_options, drafters, scenario
from app.dashboard.state import State, device_words, from_query, known_names, to_query
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.method_template import method_template
from costmodel.optimizers.drafters.default_drafters import default_drafters
from costmodel.optimizers.drafters.named_drafters import drafter_source
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.template import device_template
from tests.costmodel.own_methods import forgotten
from traces.library import shipped_traces

CARD = device_template("my-card", like="rtx-4090").encode()
OWN_METHOD = method_template("mine", like="eagle-3").encode()
RANKED = "smollm2-135m--early-exit--greedy"
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}


def test_without_a_name_the_drafters_of_the_model_compete():
    for model in ("llama-3.1-8b", "smollm2-135m"):
        state = State(model=model)
        plain = DecodingConfiguration(method="plain-decoding", deployment=deployment(state))
        expected = default_drafters(plain)[1]
        assert [source.reference for source in drafters(state)] == [
            source.reference for source in expected
        ]
    assert drafter_options(State()) == {"drafter": ()}
    assert drafter_options(State(), alone=True) == {"drafter": ("eagle-3",)}


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State(method="eagle-3"), "eagle-3"),
        (State(method="eagle-3", known_by="rate", acceptance="0.65"), "eagle-3:0.65"),
        (State(method="eagle-3", known_by="rates", acceptance="0.8,0.6"), "eagle-3:0.8,0.6"),
        (State(method="n-gram", known_by="recording", trace=RANKED), f"n-gram:{RANKED}"),
    ],
)
def test_a_drafter_is_what_the_command_line_reads(state, text):
    (drafter,) = drafters(state)
    told = drafter_source(text, model=state.model)
    assert drafter_options(state) == {"drafter": (text,)}
    assert (drafter.method, drafter.reference, drafter.rates) == (
        told.method,
        told.reference,
        told.rates,
    )
    assert scenario(state).method == told.method


def test_rivals_stand_behind_the_first_and_defaults_are_spelled_out_beside_them():
    state = State(method="eagle-3", rivals="n-gram:0.3;mtp:0.85")
    assert [each.method for each in drafters(state)] == ["eagle-3", "n-gram", "mtp"]
    assert drafter_options(state)["drafter"] == ("eagle-3", "n-gram:0.3", "mtp:0.85")
    assert drafter_options(State(rivals="mtp:0.8"))["drafter"] == (
        "eagle-3",
        "speculative-decoding",
        "n-gram",
        "mtp:0.8",
    )


def test_a_recording_names_its_method_and_is_replayed():
    state = State(known_by="recording", trace=RANKED)
    (drafter,) = drafters(state)
    assert drafter.method == "early-exit" and drafter.borrowed
    assert drafter_options(state) == {"trace": RANKED, "drafter": ()}
    emitted = [chain(drafter, k, most=3).tokens_per_step for k in range(4)]
    assert emitted[0] == 1.0 and emitted == sorted(emitted)


def test_a_recording_of_a_session_that_has_ended_is_said():
    with pytest.raises(InputError, match="drop it under Your server again"):
        drafters(State(known_by="upload", upload="gone"))
    with pytest.raises(InputError, match="drop it under Your server again"):
        recording_place("gone")
    assert "upload" not in to_query(State(known_by="upload", upload="secret")), (
        "no link holds its name"
    )


def test_a_config_is_kept_by_its_content_and_its_link_works_here():
    name = hold_config(json.dumps(CONFIG).encode())
    assert hold_config(json.dumps(CONFIG, indent=2).encode()) == name
    assert load_model(model_place(name)).layers == 16
    assert from_query({"model": name}) == (State(model=name), [])
    assert as_shown(f"--model {model_place(name)}") == "--model config.json", "no server folder"
    assert (
        without_places(f"serve '{Path(model_place(name)).parent}' --x 1")
        == "serve 'PATH_OF_THE_MODEL' --x 1"
    )
    elsewhere = f"{name[:-1]}{'0' if name[-1] != '0' else '1'}"
    assert from_query({"model": elsewhere})[1], "another server does not have it"


def test_a_devices_file_is_kept_by_its_content_and_its_link_works_here():
    name = hold_device(CARD)
    assert hold_device(CARD) == name != hold_device(CARD + b"# another\n")
    state = State(device=name, memory_gb=48.0)
    assert from_query(to_query(state)) == (state, [])
    assert device_words(state) == "my-card.toml, modified"
    where = deployment(state)
    device = load_device(where.device, where.overrides)
    assert (device.name, device.memory_bytes) == ("my-card", 48e9)
    assert as_shown(f"--device {where.device}") == "--device my-card.toml", "no server folder"
    elsewhere = f"{name[:-1]}{'0' if name[-1] != '0' else '1'}"
    assert from_query({"device": elsewhere})[1], "another server does not have it"
    with pytest.raises(InputError, match="upload it again"):
        deployment(State(device=elsewhere))


@pytest.fixture
def _methods_forgotten(monkeypatch):
    """What the server is given here, no later test of the process finds in the library."""
    monkeypatch.setattr("app.dashboard.held._methods", {})
    with forgotten():
        yield


@pytest.mark.usefixtures("_methods_forgotten")
def test_a_methods_file_is_kept_by_its_content_and_priced_as_the_command_line_does():
    slug = hold_method(OWN_METHOD)
    assert hold_method(OWN_METHOD) == slug and slug.startswith("mine-")
    edited = hold_method(OWN_METHOD.replace(b'title = "mine"', b'title = "mine, edited"', 1))
    assert edited != slug and edited.startswith("mine-"), "an edited file is another method"
    state = State(method=slug, known_by="rates", acceptance="0.8,0.6")
    assert from_query(to_query(state)) == (state, [])
    assert drafters(state)[0].method == slug
    assert "--drafter mine.toml:0.8,0.6 " in asked_run(state).line
    assert slug in known_names("method") and slug in from_query({"method": slug})[0].method


@pytest.mark.parametrize(
    ("hold", "content", "words"),
    [
        (hold_device, b"", "1 byte"),
        (hold_device, b"x" * (MOST_BYTES + 1), "1 MiB"),
        (hold_device, b"[[[", "is not TOML"),
        (hold_device, b"\xff\xfe", "is not TOML"),
        (hold_device, b"name = 'x'", "memory: is missing"),
        (
            hold_device,
            CARD.replace(b"GB_per_s = 1008.0", b"GB_per_s = -1", 1),
            "bandwidth.GB_per_s",
        ),
        (hold_device, CARD.replace(b'"my-card"', b'"../etc"', 1), "name"),
        (hold_device, CARD.replace(b'like = "', b'like = "../', 1), "constants.like"),
        (hold_method, b"", "1 byte"),
        (hold_method, b"a" * 100, "is not TOML"),
        (hold_method, OWN_METHOD.replace(b'slug = "mine"', b'slug = "../m"', 1), "slug"),
        (hold_method, OWN_METHOD.replace(b'by = "', b'by = "no-', 1), "draft"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_key_rule_and_value(hold, content, words):
    with pytest.raises(InputError, match=words):
        hold(content)


def test_a_described_drafter_is_that_of_the_command_line():
    card = {"draft_name": "ours", "draft_passes": 4, "draft_bytes": "350MB"}
    state = State(known_by="rates", acceptance="0.8,0.6", rivals="n-gram:0.3", **card)
    first, rival = drafters(state)
    assert (first.called, first.own.passes, first.own.pass_bytes) == ("ours", 4, 3.5e8)
    assert rival.called == "n-gram" and rival.own is None
    assert drafter_options(state) == {"acceptance": "0.8,0.6", "drafter": ("n-gram:0.3",)}
    words = "--draft-name ours --draft-passes 4 --draft-bytes 350MB --acceptance 0.8,0.6 "
    assert words in asked_run(state).line
    named = State(method="eagle-3", known_by="rate", acceptance="0.6", **card)
    assert "--draft-bytes 350MB --drafter eagle-3:0.6 " in asked_run(named).line
    assert scenario(named).own_drafter == "ours"
    for unknown in (State(**card), State(method="eagle-3", **card)):
        with pytest.raises(InputError, match=r"what is accepted"):
            drafters(unknown)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"[" * 100_000, b'{"model_type": "llama"}', b"\xff\xfe"]
)
def test_what_is_no_config_is_refused_and_not_kept(content):
    with pytest.raises(InputError):
        hold_config(content)


def test_models_are_understood_by_any_of_their_names_and_never_as_files(tmp_path, monkeypatch):
    assert understood("RedHatAI/Llama-3.1-8B-Instruct-FP8").name == "llama-3.1-8b"
    assert understood("70B").name == "dense-70b"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for text in ("config.json", "./config.json", "/etc/passwd", "", "no-such-model"):
        with pytest.raises(UnknownNameError):
            understood(text)
        assert not is_known_model(text)


def test_shipped_recordings_are_where_drafters_look():
    assert RANKED in {path.stem for path in shipped_traces()}
