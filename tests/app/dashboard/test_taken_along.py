"""What is taken along from a page: a report that says what the page says, and the rows of its
command."""

import html
import json
import re
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app.cli.main import main
from app.dashboard.answers.serving import answer_serving
from app.dashboard.answers.trace.page import answer_trace
from app.dashboard.answers.validation.badge import sure_of
from app.dashboard.controls.bar import summary
from app.dashboard.held import OWN_FILE, hold_config, hold_recording
from app.dashboard.pages import answered, completed, unfolded
from app.dashboard.state import State
from app.dashboard.taken_along import link_of, report, rows
from app.dashboard.wording import MOST_LETTERS, file_stem
from traces.library import read_trace, shipped_traces
from traces.storage.acceptance_file import write_acceptance

URL = "http://127.0.0.1:8501/map?batch=2"
RANKED = "smollm2-135m--early-exit--greedy"
LENGTHS = "smollm2-135m--prompt-lookup--greedy"
STATES = {
    "run": State(page="run", batch=8),
    "map": State(page="map", batch=8, method="eagle-3", known_by="rate"),
    "tree": State(page="tree", tree_nodes=8),
    "trace": State(page="trace", draft_tokens=3),
    "pair": State(page="trace", trace=RANKED, other_trace=LENGTHS),
    "diffusion": State(page="diffusion"),
    "hardware": State(page="hardware", batch=16),
    "pareto": State(page="pareto", batch=64),
}


@pytest.fixture
def small(monkeypatch):
    """Reports without plotly's five megabytes."""
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "/* plotly */")


def taken(state, answer=None):
    return report(answer or answered(state), state, summary(state), URL).decode()


@pytest.mark.parametrize("name", STATES)
def test_rows_are_those_that_the_command_writes(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    answer = answered(STATES[name])
    assert main([*shlex.split(answer.command)[1:], "--csv", str(tmp_path / "rows.csv")]) == 0
    capsys.readouterr()
    assert rows(answer).decode() == (tmp_path / "rows.csv").read_text()


@pytest.mark.usefixtures("small")
def test_a_simulation_is_taken_along_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    state = State(page="serving", count=8, prompt_tokens=64, output_tokens=8)
    answer = answer_serving(state, lambda *_: None)
    assert main([*shlex.split(answer.command)[1:], "--csv", str(tmp_path / "rows.csv")]) == 0
    capsys.readouterr()
    assert rows(answer).decode() == (tmp_path / "rows.csv").read_text()
    assert answer.headline in html.unescape(taken(state, answer))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["run", "map", "trace", "pareto"])
def test_a_report_says_what_the_page_says(name):
    state = STATES[name]
    answer, page = answered(state), html.unescape(taken(state))
    rest, behind, sure = completed(state), unfolded(state), sure_of(answer, state)
    assert (sure is None) == (name == "trace")
    for text in (
        answer.headline,
        answer.command,
        *answer.notes,
        *rest.notes,
        *behind.notes,
        *(part for pair in answer.numbers for part in pair),
        *([f"How sure: {sure.verdict}", sure.sentence] if sure else []),
        summary(state),
        link_of(state, URL),
    ):
        assert text in page, text
    drawn = json.loads(re.search(r'id="figures">(.*?)</script>', taken(state))[1])
    cards = [*answer.cards, *rest.cards]
    assert list(drawn.values()) == json.loads(json.dumps([card.figure for card in cards]))
    assert all(f"{html.escape(card.title)}</h2>" in taken(state) for card in cards)
    assert "http" not in re.sub(r"http://(127\.0\.0\.1:8501/|www\.w3\.org)", "", page).replace(
        "http-equiv", ""
    ), "nothing is loaded from outside"


def test_the_report_of_the_command_has_the_same_headline_and_how_sure(
    tmp_path, monkeypatch, capsys
):
    answer = answered(STATES["run"])
    assert main([*shlex.split(answer.command)[1:], "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    page = html.unescape((tmp_path / "report.html").read_text())
    assert answer.headline in page
    assert f"How sure: {answer.sure.verdict}" in page and answer.sure.sentence in page


@pytest.mark.usefixtures("small")
def test_a_recording_of_the_session_names_no_folder_of_the_server(tmp_path):
    place = tmp_path / "own.parquet"
    write_acceptance(read_trace(shipped_traces()[0]), place)
    hold_recording("own", place)
    state = State(page="map", method="eagle-3", known_by="upload", upload="own")
    answer = answered(state)
    for text in (taken(state), rows(answer).decode()):
        assert str(tmp_path) not in text
    assert OWN_FILE in taken(state)


@pytest.mark.usefixtures("small")
def test_a_config_of_ones_own_names_no_folder_of_the_server():
    config = {
        "model_type": "llama",
        "num_hidden_layers": 4,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 1024,
        "vocab_size": 32000,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    state = State(page="run", model=hold_config(json.dumps(config).encode()))
    for text in (taken(state), rows(answered(state)).decode()):
        assert "rooftree-models" not in text and "config.json" in text


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>.parquet", "a&b'\".parquet"])
def test_the_name_of_a_file_is_text(name, tmp_path):
    trace = replace(read_trace(shipped_traces()[0]), file=name)
    state = State(page="trace")
    answer = answer_trace(state, trace)
    page = taken(state, answer)
    assert name in answer.headline
    assert "<img" not in page and html.escape(name) in page
    told = rows(answer).decode()
    assert told.startswith("draft,draft_tokens,tokens_per_step,") and "rooftree-session" not in told


@given(st.text(max_size=300), st.text(max_size=300))
def test_the_name_of_a_file_is_short_and_of_plain_letters(title, question):
    stem = file_stem(title, question)
    assert re.fullmatch(r"rooftree([a-z0-9.-]*[a-z0-9])?", stem) and len(stem) <= MOST_LETTERS


def test_a_link_is_one_of_the_server_that_is_asked():
    assert link_of(State(page="map", batch=8), URL) == (
        "http://127.0.0.1:8501/map?model=llama-3.1-8b&batch=8"
    )
    assert link_of(State(), "") == "run?model=llama-3.1-8b"
