"""Options of a running engine with another draft length: the length alone changes."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.exporters.draft_length import (
    changed_export,
    changed_options,
    stated_length,
    with_length,
)
from app.exporters.registry import ENGINES, export
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError

SGLANG = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "5"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "6"),
)


def vllm(**config):
    return ("--speculative-config", json.dumps({"method": "eagle3", **config}))


@given(now=st.integers(1, 64), then=st.integers(1, 64))
def test_the_length_alone_changes_and_is_stated_then(now, then):
    for words in (vllm(num_speculative_tokens=now, model="m/x"), with_length(SGLANG, now)):
        assert stated_length(words) == now
        changed = with_length(words, then)
        assert stated_length(changed) == then and with_length(changed, now) == words
        old, new = changed_options(words, changed)
        assert (old == new == "") is (now == then)


def test_nothing_drafted_needs_no_option():
    assert with_length(SGLANG, 0) == ()
    assert changed_options(SGLANG, ()) == (" ".join(SGLANG), "")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--speculative-config", "{"),
        ("--speculative-config", "[1]"),
        vllm(),
        vllm(num_speculative_tokens="3"),
        vllm(num_speculative_tokens=3, num_speculative_tokens_per_batch_size=[[1, 8, 3]]),
        ("--speculative-num-steps", "3", "--speculative-eagle-topk", "4"),
        ("--speculative-num-steps", "3", "--speculative-num-draft-tokens", "16"),
        ("--speculative-num-steps", "many"),
    ],
)
def test_trees_schedules_and_what_is_no_length_state_none(words):
    assert stated_length(words) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_two_exports_differ_in_the_length(engine):
    def written(draft_tokens):
        where = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine=engine)
        chosen = DecodingConfiguration(
            deployment=where, method="speculative-decoding", draft_model="llama-3.2-1b"
        )
        return export(replace(chosen, draft_tokens=draft_tokens), engine)

    try:
        old, new = changed_export(written(5), written(3))
    except InputError:
        pytest.skip(f"{engine} does not run it")
    lengths = [sorted(map(int, re.findall(r"(?<![\w.-])\d+", line))) for line in (old, new)]
    assert lengths[0] in ([5], [5, 6]) and lengths[1] == [number - 2 for number in lengths[0]]
    assert changed_export(written(5), written(5)) == ("", "")
