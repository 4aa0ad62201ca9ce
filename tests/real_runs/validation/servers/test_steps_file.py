"""Steps that are kept are those that are read, and are priced as they were."""

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from real_runs.validation.servers.predict import predicted_group
from real_runs.validation.servers.steps import drawn_path, group_steps
from real_runs.validation.servers.steps_file import STEPS, keep_steps, rate, read_steps

NAMES = DeploymentNames(model="smollm2-135m", device="cpu-generic", engine="llama.cpp")
SETTING = build_setting(DecodingConfiguration(deployment=NAMES, method="n-gram"))


def drawn(slots, seed, *, draft_model):
    generator = np.random.default_rng(seed)
    return group_steps(
        [drawn_path([0.7, 0.4], 50, 20, generator) for _ in range(slots)], draft_model=draft_model
    )


def test_kept_steps_are_read_and_priced_as_they_were(tmp_path):
    every = [
        drawn(2, 0, draft_model=True),
        drawn(1, 1, draft_model=False),
        drawn(1, 2, draft_model=False),
    ]
    keep_steps([(0, every[0]), (3, every[1]), (3, every[2])], tmp_path)
    found = read_steps(tmp_path)
    assert [place for place, _ in found] == [0, 3, 3]
    for (_, read), kept in zip(found, every, strict=True):
        one, other = (
            predicted_group(SETTING, 12, [steps], draft_tokens=2) for steps in (read, kept)
        )
        assert one == other
    own = [steps for place, steps in found if place == 3]
    runs = [predicted_group(SETTING, 0, [steps], draft_tokens=2).run for steps in own]
    together = sum(run.tokens for run in runs) / sum(run.decode_s for run in runs)
    assert rate(SETTING, 0, own, draft_tokens=2) == pytest.approx(together)


def test_another_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_steps(tmp_path)
    (tmp_path / STEPS).write_text("no")
    with pytest.raises(InputError, match="no whole Parquet file"):
        read_steps(tmp_path)
