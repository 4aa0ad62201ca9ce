"""What `record` makes of its options, seen before a model is loaded."""

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from app.cli.verbs.machine.record import record as verb
from hardware_profiles.errors import InputError
from real_runs.drafters.recorded import DRAFTERS


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Run the verb and bring back the options that the recorder was given."""
    import typer

    given = []

    class StoppedError(Exception):
        pass

    def run(options, progress):
        given.append(options)
        raise StoppedError

    monkeypatch.setattr("real_runs.recording.record.record", run)
    cli = typer.Typer()
    cli.command()(verb)

    def ask(*words):
        result = CliRunner().invoke(cli, ["--out", str(tmp_path), *words])
        if isinstance(result.exception, StoppedError):
            return given[-1]
        raise result.exception

    return ask


def test_defaults_are_the_two_drafters_without_probabilities(asked):
    options = asked()
    assert options.drafters == ("prompt-lookup", "early-exit")
    assert (options.temperatures, options.level, options.expansion_nodes) == ((0.0, 0.8), 2, 0)
    assert options.skip_bridge and options.skipped_layers is None


def test_all_drafters_and_everything_else(asked, tmp_path):
    words = "--drafter all --level 3 --candidates 4 --expansion-nodes 32 --least-match 3 --skipped-layers 12,20"
    more = (
        f"--no-skip-bridge --temperature 0 --temperature 1 --recycling-nodes 16 --head-steps 5 --draft-model {tmp_path}"
    )
    options = asked(*words.split(), *more.split())
    assert options.drafters == DRAFTERS
    assert (options.level, options.candidates, options.expansion_nodes, options.least_match) == (3, 4, 32, 3)
    assert (options.skipped_layers, options.skip_bridge, options.temperatures) == ((12, 20), False, (0.0, 1.0))
    assert (options.recycling_nodes, options.head_steps, options.draft_model) == (16, 5, tmp_path)


@pytest.mark.parametrize("span", ["12", "a,b", "1,2,3", ""])
def test_spans_that_are_no_two_layers_are_refused(asked, span):
    with pytest.raises(InputError, match="--skipped-layers"):
        asked("--skipped-layers", span)
