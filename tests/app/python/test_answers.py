"""Answers from Python are those of the command line, and show as tables, frames, figures and
files."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rooftree as front
from app.exporters.registry import ENGINES
from traces.kinds.acceptance import AcceptanceTrace

RUNS = Path(__file__).parents[2] / "golden" / "runs.csv"
SMALL = {"batch": [1, 4], "draft_tokens": [1, 3], "tree_nodes": 4}


@pytest.fixture(scope="module")
def questions(files):
    """A question of every kind: what Python asks, and the words of the same question."""
    stated = {"model": "llama-3.1-8b", "acceptance": 0.7, "method": "eagle-3", "batch": [1, 64]}
    return {
        "optimize": (
            lambda: front.optimize(trace=files.ranks, **SMALL),
            f"optimize --trace {files.ranks} --batch 1,4 --draft-tokens 1,3 --tree-nodes 4",
        ),
        "predict": (
            lambda: front.predict(
                **stated, set={"device.bandwidth_bytes_per_s": 4e12}, split_verify=False
            ),
            "predict --model llama-3.1-8b --acceptance 0.7 --method eagle-3 --batch 1,64"
            " --set device.bandwidth_bytes_per_s=4000000000000.0 --no-split-verify",
        ),
        "replay": (
            lambda: front.replay(files.lookup, draft_tokens=range(1, 4)),
            f"replay {files.lookup} --draft-tokens 1,2,3",
        ),
        "reproduce": (lambda: front.reproduce("eagle-3", "sequoia"), "reproduce eagle-3 sequoia"),
        "score": (lambda: front.score(RUNS), f"score {RUNS}"),
        "simulate": (
            lambda: front.simulate(
                model="llama-3.1-8b",
                rate=5,
                count=5,
                prompt_tokens=50,
                output_tokens=5,
                rates=[1, 2],
                compare=["chunked"],
            ),
            "simulate --model llama-3.1-8b --rate 5 --count 5 --prompt-tokens 50 --output-tokens 5"
            " --rates 1,2 --compare chunked",
        ),
        "tree": (
            lambda: front.tree(files.vector, nodes=[4, 8], depth=4),
            f"tree --acceptance {files.vector} --nodes 4,8 --depth 4",
        ),
        "breakeven": (
            lambda: front.breakeven(model="llama-3.1-8b", method="eagle-3"),
            "breakeven --model llama-3.1-8b --method eagle-3",
        ),
        "capacity": (
            lambda: front.capacity(model="llama-3.1-8b", rate=20, prompt=1024, output=256),
            "capacity --model llama-3.1-8b --rate 20 --prompt 1024 --output 256",
        ),
        "acceptance": (
            lambda: front.acceptance(method="eagle-3", model="llama-3.1-8b"),
            "acceptance list --method eagle-3 --model llama-3.1-8b",
        ),
        "traces": (
            lambda: front.traces(model="vicuna-7b", method="medusa"),
            "traces list --model vicuna-7b --method medusa",
        ),
        "trace_losses": (
            lambda: front.trace_losses("gpu/vicuna-7b--medusa--greedy", batch=[1, 64]),
            "traces losses gpu/vicuna-7b--medusa--greedy --batch 1,64",
        ),
        "export": (
            lambda: front.export("vllm", model="llama-3.1-8b", method="n-gram", draft_tokens=3),
            "export vllm --model llama-3.1-8b --method n-gram --draft-tokens 3",
        ),
    }


VERBS = (
    "optimize",
    "predict",
    "replay",
    "reproduce",
    "score",
    "simulate",
    "tree",
    "breakeven",
    "capacity",
    "acceptance",
    "traces",
    "trace_losses",
    "export",
)


@pytest.fixture(scope="module")
def answers(questions):
    return {verb: ask() for verb, (ask, _) in questions.items()}


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_question_has_the_same_answer(rooftree, questions, answers, verb, tmp_path):
    """Object and files are those of the command; only places of files differ."""
    words = questions[verb][1].split()
    printed = rooftree(*words, "--out", tmp_path / "command", "--json").answer
    found = answers[verb].to_json()
    for key in ("exports", "files"):
        printed.pop(key, None), found.pop(key, None)
    assert found == printed
    answers[verb].export(tmp_path / "python")
    written = {
        place: {
            path.relative_to(tmp_path / place)
            for path in (tmp_path / place).rglob("*")
            if path.is_file()
        }
        for place in ("command", "python")
    }
    assert written["python"] == written["command"]


@pytest.mark.parametrize("verb", VERBS)
def test_an_answer_shows_as_the_commands_tables(rooftree, questions, answers, verb, tmp_path):
    printed = rooftree(*questions[verb][1].split(), "--out", tmp_path).out.splitlines()
    shown = repr(answers[verb]).splitlines()
    assert shown[0] == printed[0].replace(f"{tmp_path}/", "")
    assert shown[1:] == printed[1 : len(shown)]
    page = html.unescape(
        re.sub("</?(p|b|td|th|tr|table|thead|tbody)>", " ", answers[verb]._repr_html_())
    )
    assert set(re.findall(r"[\w.%]+", " ".join(shown))) <= set(re.findall(r"[\w.%]+", page))


def test_text_stays_text_in_a_notebook(answers, monkeypatch):
    """There rich displays by itself what is printed, unless it is told not to."""
    before = repr(answers["predict"])
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert repr(answers["predict"]) == before


def test_nothing_is_written_before_it_is_asked_for(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    front.optimize(trace=files.ranks, **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_question_writes_where_it_says(files, tmp_path, capsys):
    answer = front.tree(files.vector, nodes=4, out=tmp_path / "out", csv=tmp_path / "rows.csv")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"trees.json", "tree-4.json"}
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + len(answer["trees"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("verb", "column", "rows"),
    [
        ("optimize", "speedup_low", 2),
        ("predict", "tokens_per_s_high", 6),
        ("replay", "interval_low", 3),
        ("simulate", "ttft_mean_s", 6),
        ("tree", "nodes", 2),
        ("breakeven", "least_acceptance", 3),
        ("capacity", "usd_per_million_tokens", 1),
    ],
)
def test_frames_have_a_row_per_configuration_and_a_number_per_column(answers, verb, column, rows):
    frame = answers[verb].to_frame()
    assert len(frame) == rows
    assert frame[column].dtype.kind in "if" and frame[column].notna().any()
    assert not any(isinstance(value, dict) for value in frame.to_numpy().ravel())


def test_published_figures_are_a_frame_with_their_sources(answers):
    frame = answers["acceptance"].to_frame()
    assert len(frame) == len(answers["acceptance"]["entries"]) >= 2
    assert frame["source"].str.len().min() > 5 and set(frame["method"]) == {"eagle-3"}


def test_frames_hold_the_objects_numbers(answers):
    frame = answers["predict"].to_frame()
    rows = answers["predict"]["predictions"]
    assert frame["speedup"].tolist() == [row["speedup"] for row in rows]
    assert frame["speedup_low"].tolist() == [row["speedup_interval"][0] for row in rows]
    assert frame["breakdown_s.verify"].tolist() == [row["breakdown_s"]["verify"] for row in rows]
    assert (frame["speedup_low"] <= frame["speedup"]).all()


def test_a_part_of_an_answer_is_named(answers):
    assert len(answers["optimize"].to_frame("curves")) == len(answers["optimize"]["curves"])
    with pytest.raises(front.InputError, match=r"part: must be one of .*curves.*got 'curve'"):
        answers["optimize"].to_frame("curve")


@pytest.mark.parametrize(
    ("verb", "kind", "axis"),
    [
        ("optimize", None, "speedup"),
        ("optimize", "throughput", "tokens/s"),
        ("optimize", "step-time", "ms"),
        ("optimize", "acceptance", "tokens per step"),
        ("predict", None, "speedup"),
        ("replay", None, "tokens per step"),
        ("reproduce", None, "predicted"),
        ("score", None, "predicted"),
        ("simulate", None, "first token"),
        ("simulate", "load", "requests/s"),
        ("breakeven", None, "acceptance"),
        ("capacity", None, "million tokens"),
        ("tree", None, "draft level"),
    ],
)
def test_figures_are_plotly_figures_of_the_answer(answers, verb, kind, axis):
    figure = answers[verb].plot(kind)
    assert type(figure).__module__.startswith("plotly")
    assert axis in figure.layout.yaxis.title.text
    assert any(len(trace.x or ()) for trace in figure.data)


def test_a_figure_draws_the_answers_numbers(answers):
    lines = {
        trace.name: trace
        for trace in answers["predict"].plot().data
        if trace.mode == "lines+markers"
    }
    rows = [row for row in answers["predict"]["predictions"] if row["draft_tokens"] == 3]
    assert list(lines["K = 3"].y) == [row["speedup"] for row in rows]


def test_several_models_and_devices_stand_in_one_frame_and_one_figure():
    """Llama-3.1-70B does not fit an H100 in 16 bits: its rows say so, and its line is not drawn."""
    asked = {
        "drafter": ["eagle-3:0.7,0.5,0.35"],
        "batch": [1, 8],
        "device": ["h100-sxm", "h200-sxm"],
    }
    answer = front.optimize(model=["llama-3.1-8b", "llama-3.1-70b"], **asked)
    frame = answer.to_frame()
    assert frame.groupby("model")["feasible"].all().to_dict() == {
        "llama-3.1-8b": True,
        "llama-3.1-70b": False,
    }
    lines = {
        trace.name: trace.y
        for trace in answer.plot("throughput").data
        if trace.mode == "lines+markers"
    }
    assert set(lines) == {"h100-sxm", "h200-sxm"}
    assert all(slow < fast for slow, fast in zip(lines["h100-sxm"], lines["h200-sxm"], strict=True))
    with pytest.raises(front.InputError, match="nothing to draw"):
        answer.plot("step-time")


def test_a_figure_that_an_answer_lacks_is_refused(answers):
    with pytest.raises(front.InputError, match="kind: must be one of speedup, throughput"):
        answers["predict"].plot("sunburst")
    with pytest.raises(front.InputError, match="context: must be one of 1024"):
        answers["optimize"].plot(context=7)


def test_an_answer_goes_on_to_the_next_question(answers, tmp_path):
    chosen = answers["optimize"]["choices"][0]
    again = front.predict(config=answers["optimize"], batch=chosen["batch"])
    assert [row["draft_tokens"] for row in again["predictions"]] == [chosen["draft_tokens"]]
    files = front.export("vllm", answers["optimize"], model="org/target", draft="org/draft")
    assert (files.export(tmp_path) / "vllm-serve.sh").read_text().count("org/target") == 1


def test_optimize_exports_a_folder_per_engine(answers, tmp_path):
    folder = answers["optimize"].export(tmp_path)
    assert {path.name for path in folder.iterdir() if path.is_dir()} <= set(ENGINES)
    assert (folder / "vllm" / "vllm-serve.sh").is_file()
    assert (
        json.loads((folder / "recommendation.json").read_text())["choices"]
        == answers["optimize"]["choices"]
    )


def test_traces_open_and_go_wherever_a_trace_goes(files):
    trace = front.load_trace(files.lookup)
    assert isinstance(trace.read(), AcceptanceTrace)
    assert trace.to_frame()["kind"].tolist() == ["chat", "code", "all"]
    assert (
        front.replay(trace, draft_tokens=3)["chains"]
        == front.replay(files.lookup, draft_tokens=3)["chains"]
    )
    named = front.load_trace("smollm2-135m--early-exit--greedy")
    assert named["requests"] == 48


def test_foreign_files_are_imported(tmp_path):
    log = tmp_path / "positions.json"
    log.write_text('{"requests": [{"prompt_tokens": 5, "emitted": [3, 2, 1, 1]}]}')
    kept = tmp_path / "kept.parquet"
    trace = front.load_trace(log, format="position-json", method="n-gram", match_rate=1.0, out=kept)
    assert trace.path == kept and kept.is_file()
    assert front.replay(trace, draft_tokens=2)["chains"][0]["tokens"] == 4


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: front.predict(modle="llama-3.1-8b"),
            "modle: .*no such option; did you mean model",
        ),
        (
            lambda: front.predict(model="llama-3.1-8b", acceptance=0.7, tp="two"),
            "tp: must be a whole number, got 'two'",
        ),
        (
            lambda: front.predict(model="llama-3.1-8b", acceptance=0.7, batch=[0]),
            "^batch: must lie in 1",
        ),
        (lambda: front.predict(model="llama-9", acceptance=0.5), "llama-9"),
        (lambda: front.optimize(quiet=True), "quiet: .*no such option"),
        (lambda: front.replay("no-such.parquet"), "no-such"),
    ],
)
def test_errors_are_those_of_the_command(ask, message):
    with pytest.raises(front.InputError, match=message):
        ask()


def test_the_module_lists_what_it_holds():
    assert set(dir(front)) == set(front.__all__)
    assert all(getattr(front, name).__doc__ for name in front.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+", front.__version__)
    with pytest.raises(AttributeError, match="optimise"):
        _ = front.optimise


def test_importing_loads_nothing_heavy():
    place = str(Path(front.__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {place!r}); import rooftree; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "rooftree" in loaded
    assert not {"numpy", "typer", "app", "pandas", "plotly", "pyarrow"} & set(loaded)
