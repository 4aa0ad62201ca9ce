"""The schema of a scenario: every key explained, set as in a file, and added in one place."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.answers.simulations.simulate import OPTIONS
from app.questions.field import fields_of
from app.questions.simulate import SimulateQuestion
from hardware_profiles.errors import InputError, UnknownNameError
from simulator.scenario.file import (
    ScenarioFile,
    SchedulerSection,
    checked_scenario,
    read_scenario_sections,
)
from simulator.scenario.schema import assignments, known_keys, schema_keys, with_values

KEYS = {key.key: key for key in schema_keys()}
LEAST = {
    "requests": {"count": 3, "prompt_tokens": 10, "output_tokens": 4, "rate_per_s": 2.0},
    "deployment": {"model": "llama-3.2-1b"},
}


def test_every_key_says_what_it_means_and_what_it_holds():
    assert list(KEYS) == list(known_keys()) and len(KEYS) > 70
    for key in KEYS.values():
        assert key.meaning.endswith(".") and key.type not in ("", "value"), key
        assert key.default is None or not key.required


def test_ranges_and_defaults_are_those_that_are_checked():
    budget, ratio = KEYS["scheduler.token_budget"], KEYS["scheduler.watermark_ratio"]
    assert (budget.type, budget.default, budget.required) == (
        "integer",
        None,
        False,
    ) and ">= 1" in budget.range
    assert (ratio.type, ratio.range, ratio.default) == ("number", ">= 0 and < 1", 0.0)
    assert (
        KEYS["speculation.overlap"].range == "pearl, specbranch, faser"
        and KEYS["blocks.block_tokens"].required
    )
    for place, value in (
        ("scheduler.watermark_ratio", 1),
        ("scheduler.token_budget", 0),
        ("router", "nearest"),
    ):
        with pytest.raises(InputError) as caught:
            checked_scenario(with_values(LEAST, {place: value}))
        assert caught.value.key == place


class LongerScheduler(SchedulerSection):
    """Scheduler with one key more.

    Attributes:
        patience_s: seconds that nobody waits longer than.
    """

    patience_s: float = 2.5


class LongerScenario(ScenarioFile):
    """A scenario whose scheduler has one key more."""

    scheduler: LongerScheduler = LongerScheduler()


def test_a_key_is_added_in_its_section_alone():
    """The second place is whatever reads it: file, command line and explanation follow from the
    section."""
    (added,) = (key for key in schema_keys(LongerScenario) if key.key not in KEYS)
    assert (added.key, added.type, added.default) == ("scheduler.patience_s", "number", 2.5)
    assert added.meaning == "seconds that nobody waits longer than."
    values = assignments(["scheduler.patience_s=7"], LongerScenario)
    assert LongerScenario.model_validate(with_values(LEAST, values)).scheduler.patience_s == 7.0


def test_every_key_that_an_option_states_is_a_key_of_a_scenario():
    """An option goes by the same name in `--help` and in the refusal of the key that it states;
    what has no option is set by `--set` alone."""
    options = fields_of(SimulateQuestion)
    assert set(OPTIONS) <= set(KEYS)
    assert set(OPTIONS.values()) <= {option.option for option in options}
    assert len(set(OPTIONS.values())) == len(OPTIONS) < len(KEYS)


@given(
    st.sampled_from(sorted(KEYS)),
    st.none()
    | st.booleans()
    | st.integers(-9, 99)
    | st.floats(-1e9, 1e9)
    | st.sampled_from(["bf16", "a b", "ema"]),
)
def test_what_is_set_is_what_a_file_would_say(place, value):
    section, _, key = place.rpartition(".")
    written = {section: {key: value}} if section else {key: value}
    text = yaml.safe_dump(value).removesuffix("...\n").strip()
    assert with_values({}, assignments([f"{place}={text}"])) == yaml.safe_load(
        yaml.safe_dump(written)
    )


def test_short_forms_and_texts_stay_texts():
    said = ["speculation.schedule=1-16:5", "requests.priorities=1:0.5", "profile.prefix=2024-01-02"]
    assert list(assignments(said).values()) == ["1-16:5", "1:0.5", "2024-01-02"]
    shares = with_values(LEAST, {"requests.priorities": "0:0.2,1:0.8"})
    assert checked_scenario(shares).requests.priorities == {0: 0.2, 1: 0.8}


def test_bytes_are_set_with_a_unit():
    said = ["feed_forward.link_bytes_per_s=50GB/s", "speculation.draft_bytes=350MB"]
    assert list(assignments(said).values()) == [50e9, 350e6]
    assert assignments(["speculation.draft_bytes=much"]) == {"speculation.draft_bytes": "much"}


def test_what_is_no_key_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"nearest: scheduler\.kv_blocks"):
        assignments(["scheduler.kv_block=3"])
    with pytest.raises(InputError, match="must be a section of keys"):
        with_values({"scheduler": 3}, {"scheduler.kv_blocks": 3})


def test_arrivals_follow_from_what_is_stated(tmp_path):
    assert checked_scenario(LEAST).requests.arrivals == "poisson"
    users = with_values(LEAST, {"requests.rate_per_s": None, "requests.users": 2})
    assert checked_scenario(users).requests.arrivals == "closed"
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(users))
    assert checked_scenario(read_scenario_sections(tmp_path / "s.yaml")).requests.users == 2
