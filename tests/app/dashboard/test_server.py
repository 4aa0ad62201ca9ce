"""What is dropped under "Your server" on a page says what `optimize --metrics` says of it, and the
other pages use it."""

import json
import re
import shlex
from functools import cache

import pytest

testing = pytest.importorskip(
    "streamlit.testing.v1", reason="streamlit, of the extra `app`, is not installed"
)

from streamlit.components.v2 import manifest_scanner  # noqa: E402 — after the skip
from streamlit.testing.v1 import local_script_runner  # noqa: E402

from app.dashboard.uploads import reading  # noqa: E402
from tests.app.cli.verbs.test_optimize_metrics import FEW, MODEL, deep  # noqa: E402
from tests.app.dashboard.test_pages import (  # noqa: E402
    boards,
    codes,
    ended,
    is_calm,
    link,
    opened,
    turned,
)
from tests.traces.importers.engines.test_running import (  # noqa: E402
    SGLANG_LOG,
    STARTED,
    VLLM,
    vllm,
    vllm_log,
)
from traces.library import shipped_traces  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

LATER = {name: 2 * value for name, value in VLLM.items()} | {
    "spec_decode_num_draft_tokens": 12_600 + 21_000,
    "spec_decode_num_accepted_tokens": 6888 + sum(FEW),
    "generation_tokens": VLLM["generation_tokens"] + 4200 + sum(FEW) + 40,
}
BEFORE = vllm(MODEL, (3150, 2184, 1554, 0, 0), spec_decode_num_draft_tokens=12_600)
AFTER = vllm(
    MODEL,
    [early + late for early, late in zip((3150, 2184, 1554, 0, 0), FEW, strict=True)],
    **LATER,
)
STATED = {"method": "eagle3", "model": "mine/head", "num_speculative_tokens": 3}
LOG = f"args: {{'speculative_config': {STATED!r}}}\n{STARTED}{vllm_log()}"
SERVER_ARGUMENTS = (
    "speculative_algorithm='EAGLE3', speculative_draft_model_path='d/e', speculative_num_steps=3,"
    " speculative_eagle_topk=1, speculative_num_draft_tokens=4"
)
SGLANG = SGLANG_LOG.replace("speculative_algorithm='EAGLE3'", SERVER_ARGUMENTS)


@pytest.fixture(autouse=True, scope="module")
def _only_the_page_takes_time():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner,
            "scan_component_manifests",
            cache(manifest_scanner.scan_component_manifests),
        )
        patch.setattr(local_script_runner, "require_widgets_deltas", ended)
        yield


def place(app):
    (server,) = [each for each in app.file_uploader if each.key == "file-of-server"]
    return server


def drop(app, *files):
    """Files by name and text."""
    content = [(name, text.encode(), "text/plain") for name, text in files]
    place(app).set_value(content).run()
    return app


def same(rooftree, app, tmp_path, *files):
    """What the command under the answer says of the same files."""
    (line,) = [code for code in codes(app) if "--metrics" in code]
    for at, (name, text) in enumerate(files):
        (tmp_path / name).write_text(text)
        stands = ("BEFORE", "AFTER")[at]
        own = f"YOUR-FILE-{stands}" if len(files) > 1 else "YOUR-FILE"
        assert own in line
        line = line.replace(own, str(tmp_path / name))
    words = [*shlex.split(line)[1:], "--out", str(tmp_path / "out"), "--json"]
    return rooftree(*words).answer["counters"]


def is_said(app, counters):
    """Whether the page says in words and numbers what the counters' JSON says."""
    shown = boards(app)["server"]
    assert shown["headline"].removesuffix(".").lower() == counters["headline"].lower()
    numbers = dict(boards(app)["counted"]["numbers"])
    now = counters["compared"][0]
    assert f"K={now['draft_tokens']}: {now['tokens_per_step']:.2f} tokens" in numbers["Runs now"]
    assert f"{now['tokens_per_s']:,.0f}" in numbers["Runs now"]
    for row in counters["flags"]:
        assert row["old"] in codes(app) and row["new"] in codes(app)
    notes = boards(app)["counted"]["notes"]
    assert counters["headline"] not in notes, "it stands above"
    assert not counters["next"] or any(note.startswith("measure next") for note in notes)
    assert not any("/tmp" in text for text in (*notes, *codes(app))), "no folder of the server"
    return True


@pytest.mark.parametrize("swapped", [False, True])
def test_two_scrapes_in_any_order_say_to_change(rooftree, tmp_path, swapped):
    files = (("before.prom", BEFORE), ("after.prom", AFTER))
    app = drop(opened(method="eagle-3", batch=21), *(files[::-1] if swapped else files))
    assert is_calm(app) and not app.warning
    counters = same(rooftree, app, tmp_path, *files)
    assert is_said(app, counters)
    assert boards(app)["server"]["headline"].startswith("Change: run K=")
    assert "K=5" in dict(boards(app)["counted"]["numbers"])["Runs now"]
    there = next(row for row in counters["verdicts"] if row["runs_now"])
    low, high = there["gain_ratio_interval"]
    gain = dict(boards(app)["counted"]["numbers"])["Gain (80 % interval)"]
    assert f"[{100 * low:.1f}, {100 * high:.1f}]" in gain
    old, new = (json.loads(shlex.split(counters["flags"][0][name])[1]) for name in ("old", "new"))
    assert old == new | {"num_speculative_tokens": 5} != new
    told = any("named in the other order" in note for note in boards(app)["counted"]["notes"])
    assert told is swapped
    assert link(app)["known_by"] == "upload" and "upload" not in link(app)


def test_one_scrape_counts_from_the_start_and_asks_what_drafted(rooftree, tmp_path):
    app = drop(opened(page="map"), ("metrics", deep()))
    assert is_calm(app) and not app.warning and list(boards(app)) == ["server"]
    assert "do not say what drafted" in boards(app)["server"]["headline"]
    next(each for each in app.button if each.label == "eagle-3").click().run()
    assert is_calm(app) and link(app)["method"] == "eagle-3" and link(app)["batch"] == "21"
    counters = same(rooftree, app, tmp_path, ("metrics", deep()))
    assert is_said(app, counters)
    assert any("since it started" in note for note in boards(app)["counted"]["notes"])


def test_a_draft_model_is_chosen_with_its_method():
    app = drop(opened(page="map"), ("metrics", deep()))
    next(each for each in app.button if each.label == "llama-3.2-1b").click().run()
    assert is_calm(app) and not app.warning
    assert (link(app)["method"], link(app)["draft"]) == ("speculative-decoding", "llama-3.2-1b")


@pytest.mark.parametrize(
    ("text", "engine", "batch", "tp"),
    [(LOG, None, "24", "2"), (SGLANG, "sglang", "10", "4")],
    ids=["vllm", "sglang"],
)
def test_a_log_says_what_runs_and_the_options_are_its_own(
    rooftree, tmp_path, text, engine, batch, tp
):
    app = drop(opened(page="map"), ("server.log", text))
    assert is_calm(app) and not app.warning
    query = link(app)
    assert (query["method"], query.get("engine"), query["batch"], query["tp"]) == (
        "eagle-3",
        engine,
        batch,
        tp,
    )
    counters = same(rooftree, app, tmp_path, ("server.log", text))
    assert is_said(app, counters)
    assert counters["flags"] and {row["stated_by"] for row in counters["flags"]} == {"log"}
    assert "in its log" in " ".join(boards(app)["counted"]["notes"])


def test_it_stays_on_every_page_whose_drafter_is_then_known_by_it():
    app = drop(opened(method="eagle-3"), ("metrics", deep()))
    first = boards(app)["server"]["headline"]
    lines = [code for code in codes(app) if code.startswith("rooftree optimize")]
    assert any("--drafter eagle-3:YOUR-FILE" in line for line in lines)
    turned(app, "map").run()
    assert is_calm(app) and boards(app)["server"]["headline"] == first
    assert link(app)["known_by"] == "upload"
    turned(app, "trace").run()
    assert boards(app)["words"]["headline"].startswith("metrics: ")
    place(app).set_value([]).run()
    assert is_calm(app) and "server" not in boards(app)
    assert "known_by" not in link(app)


def test_a_recording_is_used_and_no_server(tmp_path):
    app = opened(page="map", method="eagle-3")
    content = shipped_traces()[0].read_bytes()
    place(app).set_value([("mine.parquet", content, "")]).run()
    assert is_calm(app) and "server" not in boards(app)
    assert link(app)["known_by"] == "upload" and not app.warning


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ([("notes.txt", "nothing that anybody prints")], "notes.txt: shows nothing of any format"),
        ([("a.prom", "prose"), ("b.prom", BEFORE)], "a.prom.*holds no counters"),
        ([("a.log", LOG), ("b.prom", BEFORE)], "a.log.*is a log, which tells all by itself"),
        ([("a.prom", BEFORE), ("b.prom", AFTER), ("c.prom", AFTER)], "two scrapes"),
        ([("a.prom", "vllm:num_requests_running 3\n")], "a.prom"),
    ],
)
def test_what_is_neither_is_refused_while_it_is_there(files, rule):
    app = drop(opened(page="map"), *files)
    for _ in range(2):
        assert is_calm(app) and "server" not in boards(app)
        assert any(re.search(rule, each.value.replace("\\", "")) for each in app.warning)
        assert not codes(app), "no answer to the question before"
        app.run()
    place(app).set_value([]).run()
    assert not app.warning and codes(app)


def test_an_oversized_file_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 1 << 20)
    app = drop(opened(page="map"), ("big.log", "x" * ((1 << 20) + 1)))
    assert is_calm(app)
    assert any("must hold 1 to 1 MiB" in each.value for each in app.warning)
