"""A method of a reader's own, from its file through every verb and back from a written answer."""

import json
import shutil
from pathlib import Path

import pytest

from app.dashboard.asking import Asked
from app.dashboard.state import State, drafting_methods, from_query
from app.questions.predict import PredictQuestion
from costmodel.method_library import load_method
from tests.costmodel.own_methods import forgotten

MODEL = ("--model", "llama-3.1-8b")
HERE = ("--batch", "1", "--context", "1024")


@pytest.fixture(autouse=True)
def _nothing_learned():
    with forgotten():
        yield


@pytest.fixture
def mine(rooftree, tmp_path, monkeypatch):
    """A file as `methods new` writes it, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    ended = rooftree("methods", "new", "mine", "--like", "eagle-3", "--out", "mine.toml")
    assert ended.code == 0, ended.err
    assert "rooftree methods check mine.toml" in ended.out
    return "mine.toml"


def edited(file, old, new):
    text = Path(file).read_text(encoding="utf-8")
    assert old in text
    Path(file).write_text(text.replace(old, new), encoding="utf-8")


def test_a_file_is_never_replaced(rooftree, mine):
    again = rooftree("methods", "new", "mine", "--out", mine)
    assert again.code == 2 and "exists already" in again.err
    shown = rooftree("methods", "new", "other")
    assert shown.code == 0 and 'slug = "other"' in shown.out
    assert "needs a name" in rooftree("methods", "new").err
    assert "needs a method" in rooftree("methods", "check").err
    assert "`new` and `check` alone" in rooftree("methods", "eagle-3", "mine").err


@pytest.mark.heavy
def test_a_check_says_what_was_checked_and_what_moved(rooftree, mine):
    ended = rooftree("methods", "check", mine)
    assert ended.code == 0 and "checks hold" in ended.out
    rows = {
        row["checked"]: row for row in rooftree("methods", "check", mine, "--json").answer["checks"]
    }
    assert rows["draft[0].layers"]["holds"] and "llama-3.1-8b" in rows["draft[0].layers"]["moved"]
    assert rows["4 drafts that all stay gain"]["holds"]
    edited(mine, "# serial_depths = (none)", "serial_depths = 2\n# ")
    edited(mine, "# depths_per_pass = 1", "depths_per_pass = 0\n# ")
    failed = rooftree("methods", "check", mine)
    assert failed.code == 2 and "does not hold of 1 of 18: draft[0].depths_per_pass" in failed.err
    assert "fails" in failed.out


def test_a_wrong_file_names_key_rule_and_value(rooftree, mine):
    edited(mine, "rereads = true", "rereeds = true")
    for words in (
        ("methods", "check", mine),
        ("predict", *MODEL, "--method", mine),
        ("optimize", *MODEL, "--drafter", f"{mine}:0.8"),
        ("export", "vllm", *MODEL, "--method", mine, "--draft-tokens", "3"),
    ):
        ended = rooftree(*words)
        assert ended.code == 2
        assert "mine.toml: draft[0].rereeds: is no key of it; nearest: rereads" in ended.err


@pytest.mark.heavy
def test_it_competes_and_is_named_and_a_written_answer_needs_no_file(rooftree, mine, tmp_path):
    drafter = f"{mine}:0.95,0.9,0.85,0.8"
    ended = rooftree(
        "optimize", *MODEL, *HERE, "--drafter", drafter, "--drafter", "eagle-3", "--out", "found"
    )
    assert ended.code == 0, ended.err
    assert "mine chain:" in ended.out
    answer = json.loads((tmp_path / "found" / "recommendation.json").read_text())
    assert answer["inputs"]["drafter"] == [drafter, "eagle-3"]
    assert answer["choices"][0]["configuration"]["entry"]["slug"] == "mine"
    direct = rooftree(
        "predict", *MODEL, *HERE, "--drafter", drafter, "--draft-tokens", "4", "--json"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    config = elsewhere / "recommendation.json"
    shutil.copy(tmp_path / "found" / "recommendation.json", config)
    (tmp_path / mine).unlink()
    with forgotten():
        read = rooftree("predict", *HERE, "--config", config, "--draft-tokens", "4", "--json")
        assert read.answer["predictions"] == direct.answer["predictions"]
    with forgotten():
        exported = rooftree("export", "vllm", "--config", config)
        assert exported.code == 2
        assert "an engine that runs mine drafts by layers on the target's features" in exported.err
        assert '[engines] "vllm" = NAME' in exported.err
    with forgotten():
        shown = rooftree("dashboard", "--config", config, "--link")
        assert shown.code == 0 and "method=mine" in shown.out


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [
        ("predict", *HERE, "--acceptance", "0.8"),
        ("breakeven", *HERE),
        ("optimize", *HERE, "--acceptance", "0.8"),
        (
            *("capacity", "--acceptance", "0.8", "--rate", "1"),
            *("--prompt-tokens", "200", "--output-tokens", "50"),
        ),
        (
            *("simulate", "--acceptance", "0.8", "--draft-tokens", "3", "--rate", "2"),
            *("--count", "5", "--prompt-tokens", "200", "--output-tokens", "20"),
        ),
    ],
)
def test_verbs_take_the_file_as_their_method(rooftree, mine, words):
    ended = rooftree(words[0], *MODEL, "--method", mine, *words[1:], "--json")
    assert ended.code == 0, ended.err
    method = json.loads(ended.out)["inputs"].get("method", "mine")  # a simulation has a scenario
    assert method == "mine"


@pytest.mark.heavy
def test_an_engine_that_has_it_is_named_in_the_file(rooftree, mine):
    edited(mine, "# [engines]", '[engines]\nvllm = "eagle3"\n# ')
    ended = rooftree(
        "export", "vllm", *MODEL, "--method", mine, "--draft-tokens", "3", "--draft", "me/my-head",
        "--out", "files", "--json",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert (
        '"method":"eagle3"' in ended.answer["command"] and "me/my-head" in ended.answer["command"]
    )


@pytest.mark.heavy
def test_a_sweep_finds_the_file_beside_its_own(rooftree, mine, tmp_path, monkeypatch):
    folder = tmp_path / "sweeps"
    folder.mkdir()
    shutil.move(mine, folder / mine)
    (folder / "sweep.yaml").write_text(
        f"models: [llama-3.1-8b]\ndevices: [h100-sxm]\ndrafters: ['{mine}:0.8,0.6']\n"
        "batches: [1]\ncontexts: [1024]\n"
    )
    ended = rooftree("sweep", "sweeps/sweep.yaml", "--out", "out", "--workers", "1")
    assert ended.code == 0, ended.err
    assert "1 with an answer" in ended.out


def test_a_server_learns_it_by_its_file(rooftree, mine):
    unknown, wrong = from_query({"method": "mine"})
    assert unknown.method == "" and "rooftree dashboard --method FILE" in wrong[0]
    assert load_method(mine).slug in drafting_methods()
    state, wrong = from_query({"method": "mine"})
    assert state.method == "mine" and not wrong
    asked = Asked(verb=PredictQuestion, values={"model": State().model, "method": state.method})
    assert asked.line.endswith("--method mine.toml")
    rivals = Asked(verb=PredictQuestion, values={"drafter": ("mine:0.8", "eagle-3")})
    assert rivals.line.endswith("--drafter mine.toml:0.8 --drafter eagle-3")


def test_the_dashboard_takes_files(rooftree, mine, tmp_path):
    ended = rooftree("dashboard", "--method", mine, "--link")
    assert ended.code == 0, ended.err
    assert "mine" in drafting_methods()
    absent = rooftree("dashboard", "--method", "absent.toml", "--link")
    assert absent.code == 2 and "there is no such file" in absent.err


def test_steps_of_a_loop_of_ones_own_come_in_as_the_refusal_of_them_says(rooftree, mine, tmp_path):
    """Whoever has nothing but what its steps emitted writes it as the refusal spells it."""
    (tmp_path / "steps.jsonl").write_text('{"lengths": "3 1 4"}\n')
    refused = rooftree("traces", "import", "steps.jsonl", "--method", mine).err
    spelled = refused[refused.index('{"speculative') : refused.index("]}}") + 3]
    (tmp_path / "steps.jsonl").write_text(spelled)
    done = rooftree(
        *("traces", "import", "steps.jsonl", "--method", mine, "--model", "llama-3.1-8b"),
        *("--out", "steps.parquet"),
    )
    assert done.code == 0, done.err
    assert "tokens per step 2.667 over 3 steps" in done.out
    predicted = rooftree("predict", *MODEL, "--drafter", f"{mine}:steps.parquet", *HERE, "--json")
    assert predicted.answer["predictions"][-1]["tokens_per_step"] > 1.0
