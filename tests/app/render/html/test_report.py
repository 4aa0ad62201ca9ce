"""The page: whole, the same from a saved answer, harmless whatever names it is fed, and refused
where it cannot be."""

import base64
import copy
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.numbers import digits
from app.answers.optimize.choices import path_acceptance
from app.answers.optimize.headline import across_batches, headline, schedule_words
from app.answers.optimize.rankings import read_rankings
from app.render.charts import charts
from app.render.html import page
from app.render.html.report import report_page, write_report
from app.render.json import jsonable, write_json
from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.tree import Tree
from traces.replay.walk import replay_chain, replay_tree
from traces.storage.acceptance_file import read_acceptance, write_acceptance

MEBIBYTE = 1 << 20
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&"

pytest.importorskip("plotly")


@pytest.fixture(scope="session")
def heads(files, tmp_path_factory):
    """A recording of a drafter so cheap that its trees win at small batches."""
    trace = read_acceptance(files.ranks)
    path = tmp_path_factory.mktemp("heads") / "heads.parquet"
    write_acceptance(replace(trace, provenance=replace(trace.provenance, method="medusa")), path)
    return path


@pytest.fixture(scope="session")
def found(rooftree, files, heads, tmp_path_factory):
    """The answer of a small search, as JSON, with trees and two contexts; acceptance is
    borrowed."""
    out = tmp_path_factory.mktemp("found")
    ended = rooftree(
        "optimize",
        "--trace",
        heads,
        "--trace",
        files.lookup,
        "--model",
        "llama-3.1-8b",
        "--engine",
        "none",
        "--batch",
        "1,8,64",
        "--context",
        "512,2048",
        "--tree-nodes",
        "4,12",
        "--out",
        out,
        "--json",
    )
    return ended.answer


@pytest.fixture
def answer(found):
    return copy.deepcopy(found)


class Page(HTMLParser):
    """The elements, scripts and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.words, self._inside = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def small(monkeypatch):
    """Pages without plotly's five megabytes, for tests that parse many."""
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "/* plotly */")


def test_the_file_is_whole_and_below_six_mebibytes(answer, tmp_path):
    path = tmp_path / "new" / "report.html"
    write_report(answer, path)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    assert 3 * MEBIBYTE < path.stat().st_size < 6 * MEBIBYTE
    text = path.read_text(encoding="utf-8")
    assert text.endswith("</html>\n")
    assert text.count("* plotly.js v") == 1, "plotly once"


def test_a_saved_answer_gives_the_same_page(answer, tmp_path):
    write_json(answer, tmp_path / "recommendation.json")
    saved = json.loads((tmp_path / "recommendation.json").read_text())
    assert report_page(saved) == report_page(answer)


def test_the_search_writes_the_page_beside_its_answer(rooftree, files, tmp_path, monkeypatch):
    words = (
        "optimize",
        "--trace",
        files.lookup,
        "--batch",
        "4",
        "--engine",
        "none",
        "--out",
        tmp_path,
    )
    ended = rooftree(*words)
    assert ended.code == 0, ended.err
    assert f"report: {tmp_path / 'report.html'}" in ended.out
    saved = json.loads((tmp_path / "recommendation.json").read_text())
    assert report_page(saved) == (tmp_path / "report.html").read_text(encoding="utf-8"), (
        "one batch, one method"
    )
    (tmp_path / "report.html").unlink()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ended = rooftree(*words)
    assert ended.code == 0
    assert not (tmp_path / "report.html").exists()
    assert "plotly is missing" in ended.out


def test_without_plotly_the_front_door_says_so(answer, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not page.plots_available()
    with pytest.raises(InputError, match="plotly"):
        write_report(answer, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(answer, tmp_path, small):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(answer, tmp_path / "file" / "report.html")


def test_only_the_two_scripts_of_the_page_may_run_and_nothing_is_fetched(answer):
    page = Page(report_page(answer))
    data, *scripts = page.scripts
    assert "<" not in data, "nothing in it can end its element"
    policy = next(
        a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert json.loads(data).keys() >= {"speedup-0", "throughput-1", "step-0", "acceptance", "tree"}
    assert not [a for _, a in page.elements if {"src", "href", "srcset", "data"} & a.keys()]


def test_every_plot_has_a_place_and_one_context_shows(answer, small):
    page = Page(report_page(answer))
    places = {a["id"] for t, a in page.elements if a.get("class") == "plot"}
    assert places == set(json.loads(page.scripts[0]))
    shown = [
        a["data-context"] for t, a in page.elements if "data-context" in a and "hidden" not in a
    ]
    assert shown == ["0"] * 3
    assert [a["value"] for t, a in page.elements if t == "input"] == ["0", "1"]
    lone = {**answer, "choices": [c for c in answer["choices"] if c["context"] == 512]}
    lone["alternatives"] = [c for c in answer["alternatives"] if c["context"] == 512]
    assert "fieldset" not in [t for t, _ in Page(report_page(lone)).elements]


def test_the_page_tells_what_the_answer_tells(answer, small):
    text = Page(report_page(answer)).text
    first = answer["choices"][0]
    assert "acceptance borrowed from llama-3.2-1b" in text
    assert f"{charts.digits(first['speedup'])}×" in text
    assert (
        f"{charts.digits(first['speedup_interval'][0])}–{charts.digits(first['speedup_interval'][1])}×"
        in text
    )
    for drafter in answer["drafters"]:
        assert drafter["file"] in text and drafter["name"] in text
    for term in first["provenance"]["dominant_uncertainty"]:
        assert f"{term['term']} ±{charts.digits(100 * term['ratio'])} %" in text
    assert first["provenance"]["overhead"]["source"] in text
    assert text.count("bandwidth") >= len(answer["choices"])


def recorded_here(answer, calibrated):
    for c in (*answer["choices"], *answer["alternatives"]):
        c["provenance"]["acceptance"] |= {
            "borrowed": False,
            "label": "acceptance recorded on this model",
        }
        c["provenance"]["device"] = {
            "name": "new",
            "calibrated": calibrated,
            "constants_from": "h100-sxm",
        }
    return answer


@pytest.mark.parametrize("calibrated", [True, False])
def test_badges_follow_the_provenance(answer, small, calibrated):
    text = Page(report_page(recorded_here(answer, calibrated))).text
    assert "acceptance recorded on this model" in text
    assert ("constants fitted to this device" in text) == calibrated
    assert ("⚠ constants fitted on h100-sxm" in text) == (not calibrated)


def hostile(value):
    """The answer with every free text replaced."""
    kept = {"off", "chain", "tree"}
    if isinstance(value, dict):
        return {key: hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return HOSTILE if isinstance(value, str) and value not in kept else value


def test_hostile_names_stay_text(answer, small):
    calm, wild = Page(report_page(answer)), Page(report_page(hostile(answer)))
    count = len(calm.scripts)
    assert len(wild.scripts) == count
    assert wild.scripts[1:] == calm.scripts[1:]
    assert {t for t, _ in wild.elements} <= {t for t, _ in calm.elements}
    assert not [a for _, a in wild.elements if any(name.startswith("on") for name in a)]
    assert HOSTILE in wild.text, "shown as it is"
    for figure in json.loads(wild.scripts[0]).values():
        assert "<img" not in json.dumps(figure), "plotly reads some markup in its texts"


@pytest.mark.parametrize(
    "broken", [{}, {"choices": []}, {"choices": [{}]}, {"choices": None}, {"choices": "no"}]
)
def test_what_is_no_answer_is_refused_and_an_older_page_stays(broken, tmp_path, small):
    path = tmp_path / "report.html"
    path.write_text("older")
    with pytest.raises(InputError, match="optimize"):
        write_report(broken, path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["older"]


def leaves(value, path=()):
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    if path:
        yield path


@settings(max_examples=examples(150))
@given(data=st.data())
def test_a_damaged_answer_gives_a_page_or_a_refusal(found, data):
    damaged = copy.deepcopy(found)
    path = data.draw(st.sampled_from(sorted(leaves(damaged), key=str)))
    owner = damaged
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = data.draw(
        st.sampled_from([None, "", "x", -1, 0, 1e308, float("nan"), [], {}, [None, 1], True])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plotly.offline.get_plotlyjs", lambda: "")
        try:
            page = report_page(damaged)
        except InputError:
            return
    assert page.endswith("</html>\n")


def test_the_first_line_in_words(answer):
    first = answer["choices"][0]
    first |= {
        "topology": "chain",
        "draft_tokens": 1,
        "speedup": 1.8755,
        "speedup_interval": [1.7537, 2.0110],
    }
    words = headline(read_rankings(answer))
    assert words.startswith(
        f"Run medusa with 1 draft token at batch 1 and context 512: {digits(first['tokens_per_s'])}"
        " tokens/s, 1.88× the speed"
    )
    assert words.endswith("(80 % interval 1.75–2.01×)")
    first |= {"topology": "tree", "draft_tokens": 12, "speedup_interval": [0.98, 2.0]}
    assert "with a tree of 12 draft tokens" in headline(read_rankings(answer))
    assert headline(read_rankings(answer)).endswith(", so it may be no faster)")
    first |= {"topology": "off", "draft_tokens": 0}
    assert headline(read_rankings(answer)) == (
        "Run without speculation at batch 1 and context 512: nothing that was compared is faster"
    )


def test_a_change_of_the_lead_is_reported(answer):
    answer["choices"] = [c for c in answer["choices"] if c["context"] == 512]
    other = next(c for c in answer["alternatives"] if c["method"] != answer["choices"][0]["method"])
    answer["choices"][1] = {**other, "batch": 8, "context": 512, "topology": "chain"}
    answer["choices"][2] = {**other, "batch": 64, "context": 512, "topology": "off"}
    assert across_batches(read_rankings(answer)).endswith(
        f"{other['method']} leads from batch 8; no speculation leads from batch 64"
    )


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([[1, 28, 4], [29, 128, 2]], "draft 4 tokens at batch 1–28, 2 at 29–128"),
        ([[1, 1, 1], [2, 2000, 0]], "draft 1 token at batch 1, nothing at 2–2,000"),
        ([[1, 8, 0], [9, 64, 3]], "draft nothing at batch 1–8, 3 tokens at 9–64"),
        ([], ""),
    ],
)
def test_schedules_in_words(ranges, words):
    assert schedule_words(ranges) == words


def test_curves_are_the_replays_and_nodes_add_up_to_the_tree(found, files):
    trace = read_acceptance(files.ranks)
    points = [p for p in found["curves"] if p["drafter"] == "medusa"]
    assert {p["topology"] for p in points} == {"off", "chain", "tree"}
    for p in points:
        if p["topology"] != "tree":
            assert p["tokens_per_step"] == replay_chain(trace, p["draft_tokens"]).tokens_per_step
    low, high = np.array([p["interval"] for p in points if p["topology"] != "off"]).T
    assert (low < high).all()
    rankings = read_rankings(found)
    for row in (*found["choices"], *found["alternatives"]):
        if row["tree"]:
            shape = Tree.from_json(row["tree"])
            shares = path_acceptance(trace, shape)
            assert 1 + sum(shares) == pytest.approx(
                replay_tree(trace, shape).tokens_per_step, abs=1e-4
            )
            ranked = next(each for each in rankings.ranked if jsonable(each) == row)
            assert charts.path_acceptance(rankings, ranked) == shares
    assert [row for row in (*found["choices"], *found["alternatives"]) if row["tree"]], (
        "a tree was chosen"
    )


def test_a_node_is_accepted_no_more_often_than_its_parent(files):
    shape = Tree.from_paths([(0,), (1,), (0, 0), (0, 7), (1, 0), (0, 0, 0)])
    shares = [1.0, *path_acceptance(read_acceptance(files.ranks), shape)]
    assert all(shares[node] <= shares[shape.parents[node]] for node in range(1, shape.nodes))
    assert shares[shape.paths().index((0, 7)) + 1] == 0.0, "a candidate that was never right"
