"""What `record` makes of its options, seen before a model is loaded."""

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from app.cli.door import command_of
from app.questions.record import RecordQuestion
from hardware_profiles.errors import InputError
from real_runs.drafters.registry import drafter_names


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

    monkeypatch.setattr("app.answers.recordings.record.record", run)
    cli = typer.Typer()
    cli.command()(command_of(RecordQuestion))

    def ask(*words):
        result = CliRunner().invoke(cli, ["--out", str(tmp_path), *words])
        if isinstance(result.exception, StoppedError):
            return given[-1]
        raise result.exception

    return ask


def test_defaults_are_two_drafters_that_need_no_fit(asked):
    options = asked()
    assert options.drafters == ("prompt-lookup", "suffix-automaton")
    assert (options.temperatures, options.level, options.expansion_nodes) == ((0.0, 0.8), 2, 0)
    assert options.skip_bridge and options.skipped_layers is None


def test_all_drafters_and_everything_else(asked, tmp_path):
    words = (
        "--drafter all --level 3 --candidates 4 --expansion-nodes 32 --least-match 3"
        " --skipped-layers 12,20"
    )
    more = (
        "--no-skip-bridge --temperature 0 --temperature 1 --recycling-nodes 16 --head-steps 5"
        f" --draft-model {tmp_path}"
    )
    options = asked(*words.split(), *more.split())
    assert options.drafters == drafter_names()
    assert (options.level, options.candidates, options.expansion_nodes, options.least_match) == (
        3,
        4,
        32,
        3,
    )
    assert (options.skipped_layers, options.skip_bridge, options.temperatures) == (
        (12, 20),
        False,
        (0.0, 1.0),
    )
    assert (options.recycling_nodes, options.head_steps, options.draft_model) == (16, 5, tmp_path)


@pytest.mark.parametrize("span", ["12", "a,b", "1,2,3", ""])
def test_spans_that_are_no_two_layers_are_refused(asked, span):
    with pytest.raises(InputError, match="--skipped-layers"):
        asked("--skipped-layers", span)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--server", "http://127.0.0.1:1", "--engine", "llama.cpp"),
            "either a running server or one to start",
        ),
        (("--engine", "vllm"), "--engine: recordings go through llama.cpp alone, got 'vllm'"),
        (
            ("--engine", "llama.cpp", "--temperature", "0.8"),
            "belongs to recordings of our own forward",
        ),
        (
            ("--engine", "llama.cpp", "--drafter", "early-exit"),
            "belongs to recordings of our own forward",
        ),
        (("--engine", "llama.cpp", "--level", "3"), "--level: belongs to"),
        (
            ("--server", "http://127.0.0.1:1", "--lookup", "2:3", "--model", "a.gguf"),
            "a running server has its own models",
        ),
        (("--server", "http://127.0.0.1:1", "--model", "a"), "cannot be reached"),
        (
            ("--server", "http://127.0.0.1:1", "--drafter", "jacobi"),
            "--drafter: must be left out: a running server has its own model and drafter",
        ),
        (
            ("--server", "http://127.0.0.1:1", "--temperature", "0", "--temperature", "1"),
            "--temperature: must be one temperature",
        ),
        (("--users", "2"), "--users: goes with --server"),
        (("--method", "eagle-3"), "--method: goes with --server"),
        (
            ("--server", "http://127.0.0.1:1", "--lookup", "2:3", "--count", "4"),
            "--count: goes with --server",
        ),
        (("--engine", "llama.cpp", "--timeout", "4"), "--timeout: goes with --server"),
        (
            ("--server", "http://127.0.0.1:1", "--key-env", "NO_SUCH_VARIABLE"),
            "must name an environment variable",
        ),
        (("--server", "http://127.0.0.1:1", "--lookup", "3:2"), "--lookup: must be N:M"),
        (("--server", "http://127.0.0.1:1", "--lookup", "x"), "--lookup: must be N:M"),
        (("--server", "http://127.0.0.1:1", "--temperature", "0"), "cannot be reached"),
        (("--server", "nonsense"), "must be a server's address"),
    ],
)
def test_recording_through_a_server_refuses_what_is_not_its_own(asked, words, message):
    with pytest.raises(InputError, match=message):
        asked(*words)


@pytest.mark.model
def test_a_recording_goes_through_a_server_that_is_started_for_it(rooftree, tmp_path):
    pytest.importorskip("xllamacpp")
    words = (
        "record",
        "--engine",
        "llama.cpp",
        "--prompts-per-kind",
        "1",
        "--max-new-tokens",
        "6",
        "--lookup",
        "1:4",
    )
    [lookup] = rooftree(*words, "--out", tmp_path, "--json").answer["traces"]
    assert (lookup["level"], lookup["requests"], lookup["tokens"]) == (1, 6, 36)
    assert lookup["tokens_per_step"]["5"] is None and lookup["tokens_per_step"]["3"] >= 1
    assert rooftree("traces", "inspect", lookup["file"]).code == 0
