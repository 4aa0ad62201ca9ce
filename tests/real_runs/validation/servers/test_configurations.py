"""Configurations of a server have names of their own, and a form that the exporter takes."""

import pytest

from app.exporters.registry import export
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from real_runs.validation.configurations import spread
from real_runs.validation.servers.configurations import (
    NGRAM_FORMS,
    drafted,
    looked_up,
    plain,
    synthetic,
)

ASKED = DecodingConfiguration(
    deployment=DeploymentNames(model="m.gguf", device="cpu-generic", engine="llama.cpp"),
    draft_model="d.gguf",
    max_batch=2,
    max_length=600,
)
LOOKUPS = [looked_up(ASKED, size, k) for size, k in NGRAM_FORMS]


def test_names_are_unique_and_say_what_drafts():
    every = [
        plain(ASKED),
        *LOOKUPS,
        *(drafted(ASKED, k) for k in (1, 4)),
        *(synthetic(one, 0.5) for one in LOOKUPS),
    ]
    assert len({one.name for one in every}) == len(every)
    assert plain(ASKED).name == "plain" and not plain(ASKED).drafter
    assert {one.topology for one in every[1:]} == {"chain"}
    assert synthetic(LOOKUPS[0], 0.5).drafter != LOOKUPS[0].drafter


@pytest.mark.parametrize(
    "one", [plain(ASKED), LOOKUPS[3], drafted(ASKED, 4)], ids=lambda one: one.name
)
def test_every_configuration_is_exported_with_its_slots_and_its_room(one):
    words = export(one.chosen, "llama.cpp").command.split()
    assert (
        words[words.index("--parallel") + 1] == "2"
        and words[words.index("--ctx-size") + 1] == "1200"
    )


def test_stated_rates_reach_the_command_line():
    words = export(
        synthetic(looked_up(ASKED, 1, 3), 0.5).chosen, "llama.cpp", synthetic=True
    ).command.split()
    assert words[words.index("--spec-synth-rates") + 1] == "0.5,0.25,0.125"


def test_lookups_draft_at_least_as_many_tokens_as_they_look_up():
    assert all(one.draft_tokens >= one.chosen.ngram_max for one in LOOKUPS)
    found = {one.name for one in spread(LOOKUPS, 5, excluded=LOOKUPS[:2], seed=3)}
    assert len(found) == 5 and not found & {one.name for one in LOOKUPS[:2]}
