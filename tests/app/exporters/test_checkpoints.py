"""No file names a model by our own short name: a hub id, a path, or a mark that a note
announces."""

import itertools
import tomllib
from pathlib import Path

import pytest

from app.answers.deployables import deployables
from app.exporters import checkpoints
from app.exporters.checkpoints import (
    DRAFT_PLACEHOLDER,
    TARGET_PLACEHOLDER,
    published_drafter,
    target_checkpoint,
)
from app.exporters.registry import ENGINES, export
from costmodel.architectures.library import hub_id, load_model, model_names
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method_library import load_method, method_names
from costmodel.optimizers.drafters.named_drafters import drafter_source, published_source
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import InputError

TABLE = tomllib.loads((Path(checkpoints.__file__).parent / "drafters.toml").read_text())["drafters"]
PAIRS = [(group["method"], *pair) for group in TABLE for pair in group["models"].items()]


@pytest.mark.parametrize(
    ("method", "engine"),
    [p for p in itertools.product(method_names(), ENGINES) if p[1] in load_method(p[0]).engines],
)
def test_no_file_holds_a_short_name(method, engine):
    own = load_method(method).drafts_with_target_layers
    for model, draft in (
        ("deepseek-v3" if own else "qwen3-8b", None),
        ("glm-4.5" if own else "llama-3.1-8b", "llama-3.2-1b"),
    ):
        named = draft if load_method(method).needs_draft_model else None
        chosen = DecodingConfiguration(
            deployment=DeploymentNames(model=model),
            method=method,
            draft_tokens=4,
            ngram_max=1,
            draft_model=named,
        )
        result = export(chosen, engine, "0.32.0" if method == "medusa" else None)
        for text in (*result.files.values(), result.command):
            assert model not in text.split() and "llama-3.2-1b" not in text.split()
        marks = [
            mark
            for mark in (TARGET_PLACEHOLDER, DRAFT_PLACEHOLDER)
            if mark in "".join(result.files.values())
        ]
        for mark in marks:
            assert any(mark in note for note in result.notes)


def test_every_shipped_model_is_known_to_engines_or_marked():
    for name in model_names():
        notes = []
        found = target_checkpoint(name, notes)
        assert "/" in found or (found == TARGET_PLACEHOLDER and notes)


def test_files_of_ours_are_no_checkpoints():
    notes = []
    assert (
        target_checkpoint("own/model.toml", notes) == TARGET_PLACEHOLDER
        and "own/model.toml" in notes[0]
    )
    assert target_checkpoint("own/config.json", notes) == "own" and "beside config.json" in notes[1]
    assert target_checkpoint("/models/own", notes) == "/models/own" and len(notes) == 2


@pytest.mark.parametrize(("method", "target", "draft"), PAIRS)
def test_drafters_are_published_for_models_that_exist_under_methods_that_load_them(
    method, target, draft
):
    assert load_method(method).needs_trained_weights
    assert "/" in target and "/" in draft
    assert load_model(target).vocab > 0
    assert published_drafter(target, method)[0]
    if method == "speculative-decoding":
        assert load_model(draft).vocab == load_model(target).vocab
        assert load_model(draft).parameters < load_model(target).parameters / 4


def test_every_group_of_drafters_names_its_source():
    assert all(len(group["source"]) > 10 for group in TABLE)
    assert published_drafter("org/unknown", "eagle-3") is None


def test_a_short_name_finds_the_checkpoint_that_spells_it():
    assert hub_id("llama-3.3-70b") == "meta-llama/Llama-3.3-70B-Instruct"
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.3-70b"), method="eagle-3", draft_tokens=3
    )
    result = export(chosen, "vllm")
    head = published_source("eagle-3", "llama-3.3-70b").draft_model
    assert f'"model":"{head}"' in result.command
    assert any(note.startswith(f"no draft model is named: {head}") for note in result.notes)


@pytest.mark.parametrize("target", ["llama-3.3-70b", "qwen3-8b", "llama-3.1-8b"])
def test_a_head_that_nobody_names_is_that_of_the_published_figure(target):
    where = DeploymentNames(model=target, device="h100-sxm", engine="vllm", tensor_parallel=4)
    files = [
        deployables(
            recommend(
                DecodingConfiguration(deployment=where), [drafter], batches=[8], draft_tokens=[3]
            ),
            context=1024,
            engines=["vllm"],
        )[0].result.files["vllm-speculative-config.json"]
        for drafter in (published_source("eagle-3", target), drafter_source("eagle-3:0.7,0.5,0.3"))
    ]
    assert files[0] == files[1]


def test_the_drafter_of_another_targets_figure_is_not_taken():
    assert published_source("eagle-3", "deepseek-v3").borrowed
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model="deepseek-v3"), method="eagle-3", draft_tokens=3
    )
    assert DRAFT_PLACEHOLDER in export(chosen, "vllm").command


def test_a_target_has_to_be_named():
    with pytest.raises(InputError, match="must name the target"):
        export(
            DecodingConfiguration(
                deployment=DeploymentNames(model=""), method="n-gram", draft_tokens=2
            ),
            "vllm",
        )
