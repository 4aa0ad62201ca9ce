"""Recording a masked model: traces that replay exactly, and that a kill does not lose."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from hardware_profiles.errors import InputError  # noqa: E402
from real_runs.masked.corpus import Corpus  # noqa: E402
from real_runs.masked.training import MaskedRecipe, masked_model  # noqa: E402
from real_runs.recording.masked import (  # noqa: E402
    MaskedRecording,
    anchor_policies,
    other_prompts,
    record_masked,
)
from real_runs.training import module_sha256  # noqa: E402
from traces.kinds.refine_policy import RefinePolicy  # noqa: E402
from traces.replay.confidence.walk import replay_policy  # noqa: E402
from traces.storage.confidence_file import read_confidence  # noqa: E402

SMALL = MaskedRecipe(
    corpus=Corpus(window_tokens=24),
    prompt_tokens=8,
    steps=3,
    rows=4,
    width=16,
    layers=1,
    heads=2,
    ffn_width=16,
)
POLICIES = {cache: anchor_policies(cache, 8) for cache in ("none", "prefix", "dual")}


def options(folder, **changes):
    return MaskedRecording(
        out=folder, recipe=SMALL, prompts=2, policies=POLICIES, name="tiny", **changes
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    return folder, record_masked(options(folder))


def test_every_recorded_policy_is_replayed_exactly_under_every_cache(recorded):
    _, paths = recorded
    assert [path.name for path in paths] == [
        f"tiny--{n}.parquet" for n in ("plain", "prefix-cache", "dual-cache")
    ]
    for path, policies in zip(paths, POLICIES.values(), strict=True):
        trace = read_confidence(path)
        assert trace.policies == policies and trace.runs == 12
        for place, policy in enumerate(policies):
            replay = replay_policy(trace, policy)
            assert replay.how == "recorded"
            assert replay.steps.tolist() == trace.steps[trace.policy_of_run == place].tolist()


def test_confirmed_drafts_replayed_take_the_passes_of_the_live_model(recorded):
    from real_runs.decoding.masked.drafts import self_verified

    folder, paths = recorded
    model, trace = masked_model(folder, SMALL), read_confidence(paths[0])
    for drafts in (2, 4):
        policy = RefinePolicy(commit="self_verified", at={"drafts": drafts}, block_tokens=8)
        replay = replay_policy(trace, policy)
        live = [
            self_verified(
                model, window[:8].tolist(), policy, canvas_tokens=16, mask_id=SMALL.corpus.mask_id
            ).steps[0]
            for window in SMALL.corpus.prompts(2).values()
        ]
        assert replay.steps.tolist() == live


def test_a_killed_recording_goes_on_where_it_was(recorded, tmp_path):
    folder, paths = recorded
    (tmp_path / "masked-model.safetensors").write_bytes(
        (folder / "masked-model.safetensors").read_bytes()
    )

    def killed(done):
        if done.stage == "recording" and done.done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_masked(options(tmp_path), progress=killed)
    assert not list(tmp_path.glob("*.parquet"))
    with pytest.raises(InputError, match="resume it or delete it"):
        record_masked(options(tmp_path))
    with pytest.raises(InputError, match="was begun with"):
        record_masked(dataclasses.replace(options(tmp_path, resume=True), prompts=1))
    for mine, whole in zip(record_masked(options(tmp_path, resume=True)), paths, strict=True):
        one, other = read_confidence(mine), read_confidence(whole)
        assert np.array_equal(one.doubt, other.doubt) and np.array_equal(
            one.final_ids, other.final_ids
        )
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_model_is_made_of_its_recipe_alone(recorded):
    folder, _ = recorded
    again = masked_model(folder, SMALL)
    assert module_sha256(again) == module_sha256(masked_model(folder / "elsewhere", SMALL))
    other = masked_model(folder / "other", dataclasses.replace(SMALL, seed=1))
    assert module_sha256(again) != module_sha256(other)


def test_prompts_are_windows_that_no_row_of_training_holds():
    corpus = Corpus()
    taught = {row.tobytes() for row in corpus.training_windows()}
    first, second = corpus.prompts(64), corpus.prompts(64, first=64)
    assert len(first) == len(second) == 64 and not set(first) & set(second)
    held = [row for row in (*first.values(), *second.values()) if row.tobytes() in taught]
    assert not held
    assert "LETTER" in corpus.text(corpus.training_windows().reshape(-1)[:2000])


def test_other_prompts_are_others(tmp_path):
    first = options(tmp_path)
    assert other_prompts(first).first == 2
    with pytest.raises(InputError, match=f"1 to {Corpus().held_back}"):
        MaskedRecording(out=tmp_path, prompts=Corpus().held_back, first=1)
    with pytest.raises(InputError, match="must be none in that trace"):
        MaskedRecording(out=tmp_path, caches=("none",), policies={"none": anchor_policies("dual")})
    with pytest.raises(InputError, match="is out of range"):
        MaskedRecipe(rows=0)


@given(first=st.integers(0, 200), count=st.integers(4, 128))
def test_any_stretch_of_prompts_lies_evenly_over_the_text(first, count):
    """No gap between neighbours in the text is more than four times the mean one."""
    corpus = Corpus()
    places = sorted(int(name.removeprefix("names-")) for name in corpus.prompts(count, first=first))
    assert len(set(places)) == count and not {place % 16 for place in places} - {0}
    gaps = np.diff([0, *places, len(corpus.windows())])
    assert gaps.max() <= 4 * len(corpus.windows()) / count
