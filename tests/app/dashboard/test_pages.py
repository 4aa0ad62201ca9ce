"""Every page and control, run by Streamlit without a browser: no exception, and a link that says
the same."""

import html
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

testing = pytest.importorskip(
    "streamlit.testing.v1", reason="streamlit, of the extra `app`, is not installed"
)

from streamlit.components.v2 import manifest_scanner  # noqa: E402 — after the skip
from streamlit.testing.v1 import local_script_runner  # noqa: E402

from app import dashboard  # noqa: E402
from app.answers.scoring.certainty import VERDICTS  # noqa: E402
from app.dashboard import pages  # noqa: E402
from app.dashboard.answer import DeferredAnswer  # noqa: E402
from app.dashboard.answers import every_device, hardware  # noqa: E402
from app.dashboard.controls.bar import AS_SOLD, BEHIND, INLINE, QUESTION, words  # noqa: E402
from app.dashboard.device_numbers import DEVICE_NUMBERS  # noqa: E402
from app.dashboard.measured import measured_results  # noqa: E402
from app.dashboard.state import FIELDS, PAGES, State, address, from_query  # noqa: E402
from app.dashboard.wording import ASK_DIFFUSION, MASKED, TITLES  # noqa: E402
from costmodel.method_template import method_template  # noqa: E402
from hardware_profiles.template import device_template  # noqa: E402
from tests.traces.importers.samples import LLAMA_COUNTERS, VLLM_LOG, VLLM_SCRAPES  # noqa: E402

SCRIPT = Path(dashboard.__path__[0]) / "main.py"
PATIENCE_S = 300
RANKED = "smollm2-135m--early-exit--greedy"
BAR = [name for names in QUESTION.values() for name in names]
OWN = {
    page: [*INLINE[page], *(name for names in BEHIND.get(page, {}).values() for name in names)]
    for page in PAGES
}
CHANGES = {
    "model": "llama-3.2-1b",
    "device": "l4",
    "other_device": "l40s",
    "engine": "sglang",
    "dtype": "fp8",
    "kv_dtype": "fp8",
    "draft_dtype": "fp8",
    "known_by": "rate",
    "rivals": "n-gram",
    "commit": "capped",
    "threshold": 0.6,
    "block": 16,
    "cache": "dual",
    "confidence": "masked-names--dual-cache",
    "recorded_prompt": 2,
    "agreement_ratio": 0.8,
    "method": "mtp",
    "draft": "llama-3.2-1b",
    "trace": RANKED,
    "other_trace": RANKED,
    "measured": list(measured_results())[-1],
    "acceptance": "0.5",
    "batch": 4,
    "context": 512,
    "draft_tokens": 3,
    "tree_nodes": 8,
    "depth": 3,
    "slo_tpot": 500.0,
    "slo_ttft": 5000.0,
    "slo_e2e": 50000.0,
    **dict.fromkeys(DEVICE_NUMBERS, 1000.0),
    "draft_bytes": "350MB",
    "draft_passes": 4,
    "draft_name": "ours",
    "tp": 2,
    "rate": 2.0,
    "count": 10,
    "prompt_tokens": 64,
    "output_tokens": 16,
}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True, scope="module")
def _only_the_page_takes_time():
    """Streamlit's harness reads the metadata of all installed packages for every run, and polls
    each millisecond."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner,
            "scan_component_manifests",
            cache(manifest_scanner.scan_component_manifests),
        )
        patch.setattr(local_script_runner, "require_widgets_deltas", ended)
        yield


@pytest.fixture
def _few_devices(page, monkeypatch):
    """A page of hardware that prices and plans a few; `test_every_device` looks at all of them."""
    few = every_device.sold_devices()[::8]
    kept = (
        hardware._best_layouts,
        hardware._every_device,
        pages._cached,
        pages._cached_rest,
        pages._cached_behind,
    )
    if page == "hardware":
        monkeypatch.setattr(every_device, "sold_devices", lambda: few)
        monkeypatch.setattr(every_device, "MOST_PLANNED", 2)
        for cached in kept:
            cached.cache_clear()
    yield
    if page == "hardware":
        for cached in kept:
            cached.cache_clear()


def ended(runner, timeout):
    runner._script_thread.join(timeout)
    assert runner.script_stopped(), f"the page was not done after {timeout} s"


def opened(**query):
    app = testing.AppTest.from_file(str(SCRIPT), default_timeout=PATIENCE_S)
    for name, value in query.items():
        app.query_params[name] = str(value)
    for page in PAGES:  # the fold, behind which answers are told, too
        app.session_state[f"fold-{page}"] = True
    return app.run()


def codes(app):
    """Texts to be copied, in the order of the page."""
    found = (re.search("<code>(.*)</code>", each.value, re.DOTALL) for each in app.html)
    return [html.unescape(each.group(1)) for each in found if each]


def link(app):
    """The query that the page wrote, one text per name."""
    return {
        name: value[0] if isinstance(value, list) else value
        for name, value in dict(app.query_params).items()
    }


def turned(app, page):
    """The app with another page chosen, as the navigation does it; `AppTest.switch_page` knows
    pages by file alone."""
    app._page_hash = next(
        key for key, info in app._registered_pages.items() if info["url_pathname"] == page
    )
    return app


def control(app, name):
    found = [each for each in controls(app) if field(each) == name]
    assert len(found) == 1, name
    return found[0]


def controls(app):
    kinds = ("selectbox", "slider", "select_slider", "number_input", "text_input", "multiselect")
    return [
        each
        for kind in kinds
        for each in getattr(app, kind)
        if (each.key or "").startswith("asked-")
    ]


def asked(app):
    return {field(each) for each in controls(app)}


def field(widget):
    return widget.key.removeprefix("asked-").partition("--")[0]


def boards(app):
    """What the page's own elements are given to draw, by name."""
    found = [json.loads(each.proto.json) for each in app.get("bidi_component") if each.proto.json]
    return {each["name"]: each for each in found}


def is_calm(app):
    assert not app.exception
    assert not app.error
    return True


@pytest.mark.parametrize("page", PAGES)
def test_every_page_answers_from_its_defaults(page):
    app = opened(page=page)
    assert is_calm(app)
    assert not app.warning
    assert app.title[0].value == TITLES[page]
    assert codes(app) or page == "serving"
    assert "page" not in link(app), "it stands in the path"
    drawn = boards(app)
    assert all(each["asked"] == json.dumps(link(app)) for each in drawn.values())
    assert page == "serving" or (drawn["words"]["headline"] and drawn["charts"]["cards"])
    assert asked(app) <= {*BAR, *OWN[page]}
    assert {"model", "batch", "context", "device", "tp", "method", "slo_tpot"} <= asked(app), (
        "one bar on every page"
    )


@pytest.mark.usefixtures("_few_devices")
@pytest.mark.parametrize("page", PAGES)
def test_every_control_of_a_page_moves_the_link_and_breaks_nothing(page):
    app = opened(page=page)
    moved = {}
    for name in OWN[page]:
        if name == "tree_nodes" and page == "run":
            continue  # which only recordings have
        control(app, name).set_value(CHANGES[name])
        moved[name] = CHANGES[name]
        app.run()
        assert is_calm(app), name
        assert from_query(link(app)) == (State(**moved), []), name


def test_every_control_of_the_bar_moves_the_link_and_breaks_nothing():
    app, moved = opened(page="map"), {}
    for name in BAR:
        if name in ("draft", "trace", "rivals", "slo_e2e"):  # the last is asked of requests alone
            continue
        moved[name] = CHANGES[name]
        control(app, name).set_value(0.5 if name == "acceptance" else CHANGES[name])
        app.run()
        assert is_calm(app), name
        assert from_query(link(app)) == (State(**moved), []), name
    for name, needs, value in (
        ("acceptance", "rates", "0.8,0.6"),
        ("trace", "recording", CHANGES["trace"]),
    ):
        control(app, "known_by").set_value(needs).run()
        control(app, name).set_value(value).run()
        assert is_calm(app), name
        assert link(app)["known_by"] == needs and link(app)[name] == value
    control(app, "rivals").set_value(["n-gram", "eagle-3:0.7"]).run()
    assert link(app)["rivals"] == "n-gram;eagle-3:0.7"
    served = opened(page="serving")
    control(served, "slo_e2e").set_value(CHANGES["slo_e2e"]).run()
    assert is_calm(served) and link(served)["slo_e2e"] == "50000"


def test_what_is_typed_wrong_is_said_and_leaves_the_question_as_it_was():
    app = opened(page="map", method="eagle-3", known_by="rates", acceptance="0.8,0.6")
    control(app, "acceptance").set_value("0.8, x").run()
    assert is_calm(app)
    assert link(app)["acceptance"] == "0.8,0.6"
    assert any("must be rates" in each.value for each in app.caption)
    assert app.warning and not codes(app), "no answer to what was typed before"
    control(app, "acceptance").set_value("0.8, 0.5").run()
    assert link(app)["acceptance"] == "0.8,0.5"
    assert not any("must be rates" in each.value for each in app.caption)


def test_a_config_that_cannot_be_read_is_said_as_long_as_it_is_there():
    app = opened(page="map")
    (place,) = [each for each in app.file_uploader if each.key == "file-of-model"]
    place.upload("config.json", b'{"model_type": "no-such-model"}', "application/json")
    app.run()
    for _ in range(2):
        assert is_calm(app)
        assert app.warning and "config.json" in app.warning[0].value
        assert not codes(app), "no answer to the question before"
        control(app, "batch").set_value(4).run()
    (place,) = [each for each in app.file_uploader if each.key == "file-of-model"]
    place.clear().run()
    assert not app.warning and codes(app)


def test_how_sure_names_no_folder_of_the_server():
    app = opened(page="map")
    (place,) = [each for each in app.file_uploader if each.key == "file-of-model"]
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
    place.upload("config.json", json.dumps(config).encode(), "application/json")
    app.run()
    assert is_calm(app)
    sentence = boards(app)["words"]["sure"]["sentence"]
    assert "config" in sentence and "rooftree-models" not in sentence


@pytest.mark.parametrize(
    ("model", "format"), [("llama-3.1-8b", "bf16"), ("deepseek-v3", "fp8-block")]
)
def test_the_published_format_is_named(model, format):
    app = opened(page="map", model=model, device="h200-sxm", tp=8)
    weights = control(app, "dtype")
    assert weights.value == "" and weights.options[0] == f"as published ({format})"
    weights.set_value("fp8").run()
    assert is_calm(app) and "--dtype fp8 " in codes(app)[0]


def test_the_bar_says_that_the_device_is_a_modified_one():
    assert words("Hardware", State(memory_gb=40.0)) == "1 × h100-sxm, modified · vllm"
    assert words("Hardware", State()) == "1 × h100-sxm · vllm"


def pressed(app, label):
    next(each for each in app.button if each.label == label).click().run()


def dropped(app, name, file, content):
    (place,) = [each for each in app.file_uploader if each.key == f"file-of-{name}"]
    place.upload(file, content, "application/toml")
    return app.run()


def test_modified_numbers_are_marked_hold_on_every_page_and_are_put_back_by_one_press():
    app = opened(page="map")
    assert control(app, "bandwidth_gb_per_s").placeholder == "3,350 as sold"
    control(app, "bandwidth_gb_per_s").set_value(800.0).run()
    assert any(each.value == ":orange[modified], 3,350 as sold" for each in app.caption)
    for page in PAGES[1:-1]:  # the first has no path
        turned(app, page).run()
        assert is_calm(app), page
        assert control(app, "bandwidth_gb_per_s").value == 800.0
        assert any("h100-sxm, modified" in each.label for each in app.button), "the bar's one line"
        assert from_query(link(app))[0] == State(bandwidth_gb_per_s=800.0)
        if page not in ("trace", "serving"):
            assert any("--set device.bandwidth_bytes_per_s=8e+11 " in line for line in codes(app))
    pressed(app, AS_SOLD)
    assert is_calm(app) and from_query(link(app))[0] == State()
    assert control(app, "bandwidth_gb_per_s").value is None
    assert not any("modified" in each.value for each in app.caption)


def test_another_device_begins_as_it_is_sold():
    app = opened(page="map", memory_gb=40, batch=8)
    control(app, "device").set_value("l4").run()
    assert is_calm(app) and from_query(link(app))[0] == State(device="l4", batch=8)
    assert control(app, "device").value == "l4" and control(app, "memory_gb").value is None
    assert "--set" not in codes(app)[0]


def test_a_link_with_factors_opens_with_the_numbers_that_they_made():
    app = opened(page="hardware", device="l4", bandwidth_ratio=2)
    assert is_calm(app) and not app.warning
    assert control(app, "bandwidth_gb_per_s").value == 600.0
    assert boards(app)["words"]["headline"].startswith("l4, modified: ")


def test_a_drafter_of_ones_own_is_asked_on_every_page_with_what_is_accepted_of_it():
    app = opened(page="map")
    assert {"draft_name", "draft_passes"}.isdisjoint(asked(app))
    control(app, "draft_bytes").set_value("350MB").run()
    assert is_calm(app) and not app.warning, "it has a usual rate until another is stated"
    assert "published" not in [*control(app, "known_by").options]
    control(app, "draft_passes").set_value(4).run()
    control(app, "draft_name").set_value("ours").run()
    control(app, "known_by").set_value("rates").run()
    control(app, "acceptance").set_value("0.8,0.6,0.45").run()
    card = {"draft_bytes": "350MB", "draft_passes": 4, "draft_name": "ours"}
    state = State(known_by="rates", acceptance="0.8,0.6,0.45", **card)
    described = "--draft-name ours --draft-passes 4 --draft-bytes 350MB "
    for page in ("map", "tree", "hardware", "pareto"):
        turned(app, page).run()
        assert is_calm(app) and not app.warning, page
        assert from_query(link(app))[0] == state
        assert any(described in line for line in codes(app))
    assert words("Drafting", state) == "ours · 0.8,0.6,0.45"
    control(app, "draft_bytes").set_value("350 m").run()
    assert app.warning and not codes(app), "no answer to what was typed wrong"
    control(app, "draft_bytes").set_value("").run()
    assert is_calm(app) and "draft_bytes" not in link(app)


@pytest.mark.parametrize(
    ("name", "file", "content", "field", "shown"),
    [
        ("device", "a.toml", device_template("my-card", like="rtx-4090"), "device", "my-card.toml"),
        ("method", "b.toml", method_template("mine", like="eagle-3"), "drafter", "mine.toml:0.7"),
    ],
)
def test_a_dropped_file_is_asked_about_and_its_link_works_here(name, file, content, field, shown):
    app = dropped(opened(page="map"), name, file, content.encode())
    assert is_calm(app) and not app.warning
    assert f"--{field} {shown} " in codes(app)[0]
    again = opened(page="map", **link(app))
    assert is_calm(again) and not again.warning
    assert codes(again) == codes(app) and boards(again) == boards(app)
    others = control(opened(page="map"), name).options
    assert not {*others} & {shown, link(app)[name]}, "it is offered to nobody else"


@pytest.mark.parametrize("name", ["device", "method"])
def test_a_dropped_file_that_cannot_be_read_is_said_as_long_as_it_is_there(name):
    app = dropped(opened(page="map"), name, "a.toml", b'title = "x"')
    for _ in range(2):
        assert is_calm(app)
        assert app.warning and app.warning[0].value.startswith(f"{name}.toml")
        assert "is missing" in app.warning[0].value and "/" not in app.warning[0].value
        assert not codes(app), "no answer to the question before"
        control(app, "batch").set_value(4).run()
    (place,) = [each for each in app.file_uploader if each.key == f"file-of-{name}"]
    place.clear().run()
    assert not app.warning and codes(app)


def test_a_drafter_without_a_name_has_no_rate_of_its_own():
    app = opened(page="map", method="eagle-3", known_by="rate", acceptance=0.5)
    assert "--drafter eagle-3:0.5" in codes(app)[0]
    control(app, "method").set_value("").run()
    assert is_calm(app)
    assert "known_by" not in link(app)
    assert "acceptance" not in asked(app)


def test_a_draft_model_is_asked_for_where_the_method_has_one():
    app = opened(page="map", method="speculative-decoding", known_by="rate")
    assert is_calm(app)
    assert app.warning, "without one there is no answer, and the page says so"
    control(app, "draft").set_value("llama-3.2-1b").run()
    assert is_calm(app)
    assert not app.warning
    assert "--draft llama-3.2-1b" in codes(app)[0]


def test_a_widget_decides_at_once_which_others_are_asked_for():
    app = opened(page="map")
    control(app, "method").set_value("speculative-decoding").run()
    control(app, "draft")
    control(app, "known_by").set_value("recording").run()
    control(app, "trace")
    assert "acceptance" not in asked(app)


def test_only_what_can_be_chosen_is_offered():
    app = opened(page="map", tp=2)
    assert control(app, "tp").options == ["1", "2", "4", "8"]
    assert not any("plain" in each for each in control(app, "method").options), (
        "it is what drafting is compared with"
    )
    devices = control(app, "device").options
    assert "a100-sxm-80" in devices and "cpu-amd-epyc--1-thread" in devices
    assert not any("flashinfer" in each or "own-passes" in each for each in devices)
    assert control(opened(page="map", tp=3), "tp").value == 3, "a link may say it all the same"


def test_another_commit_rule_begins_with_its_own_threshold():
    app = opened(page="diffusion", threshold=0.5)
    control(app, "commit").set_value("factor").run()
    assert is_calm(app) and not app.warning
    assert from_query(link(app))[0] == State(commit="factor")
    assert "recommended" in control(app, "threshold").options


def test_an_earlier_address_brings_its_question_back():
    app = opened(page="map", batch=8)
    turned(app, "serving").run()
    control(app, "batch").set_value(64).run()
    turned(app, "map")
    app.query_params.clear()
    for name, value in address(State(batch=8)).items():
        app.query_params[name] = value
    app.run()
    assert is_calm(app)
    assert (app.title[0].value, control(app, "batch").value) == (TITLES["map"], 8)
    control(app, "batch").set_value(16).run()
    assert from_query(link(app))[0] == State(batch=16)


def test_a_moved_widget_counts_more_than_an_address_that_is_behind():
    app = opened(page="map")
    control(app, "batch").set_value(4).run()
    app.query_params.clear()
    app.query_params["model"] = State().model
    control(app, "batch").set_value(16).run()
    assert from_query(link(app))[0] == State(batch=16)


def test_many_wrong_parts_of_a_link_are_few_messages():
    app = opened(page="map", **{f"x{n}": "1" for n in range(119)})
    assert is_calm(app)
    assert 1 < len(app.warning) <= 4
    assert "116 more" in app.warning[-1].value
    control(app, "batch").set_value(4).run()
    assert not app.warning, "they are about the link, which has changed"


def test_the_state_outlives_a_change_of_page():
    app = opened(page="map", batch=8, draft_tokens=3)
    turned(app, "serving")
    app.query_params.clear()  # as the browser does
    app.run()
    assert is_calm(app)
    assert app.title[0].value == TITLES["serving"]
    assert control(app, "batch").value == 8
    assert from_query(link(app))[0] == State(batch=8, draft_tokens=3)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"batch": "-1"}, "Left out of the link"),
        ({"model": "<img src=x>"}, "Left out of the link"),
        ({"page": "pareto", "model": "llama-3.1-405b", "device": "l4"}, "fits no layout"),
        ({"page": "tree", "trace": "smollm2-135m--prompt-lookup--greedy"}, "level"),
        ({"page": "run", "tp": "9"}, "1..8"),
    ],
)
def test_what_cannot_be_answered_is_said_in_words(query, words):
    app = opened(**query)
    assert is_calm(app)
    assert words in app.warning[0].value
    assert "<" not in app.warning[0].value.replace("\\<", ""), "markup of a link is shown, not run"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in pages.OF_MASKED_MODELS])
def test_a_page_of_drafters_leads_to_the_page_that_answers_about_a_masked_model(page):
    app = opened(page=page, model="llada-8b")
    assert is_calm(app) and not app.warning
    assert [said.value for said in app.info] == [MASKED]
    (way,) = app.get("page_link")
    assert (way.proto.page, way.proto.label) == ("diffusion", ASK_DIFFUSION)


def test_a_simulation_runs_on_request_and_stays():
    app = opened(page="serving", count=8, prompt_tokens=64, output_tokens=8)
    assert not codes(app)
    next(each for each in app.button if each.label == "Run the simulation").click().run()
    assert is_calm(app)
    assert codes(app)[0].startswith("rooftree simulate")
    assert "Goodput" in dict(boards(app)["words"]["numbers"])
    app.run()
    assert codes(app)[0].startswith("rooftree simulate"), "drawn again without another run"


def test_what_is_behind_the_closed_fold_is_neither_computed_nor_sent(monkeypatch):
    asked = []
    monkeypatch.setattr("app.dashboard.pages.unfolded", asked.append)
    app = opened(page="run")
    assert asked and "notes" in boards(app)
    asked.clear()
    app.session_state["fold-run"] = False
    assert is_calm(app.run())
    assert not asked and {"words", "charts", "rest"} == set(boards(app))


def told(answer, rest):
    parts = (
        answer.headline,
        answer.command,
        answer.numbers,
        answer.notes,
        answer.tables,
        rest.notes,
        rest.tables,
    )
    return json.dumps(
        [*parts, *([card.title, card.note, card.figure] for card in (*answer.cards, *rest.cards))]
    )


@pytest.mark.parametrize("page", pages.ASKED)
def test_what_a_page_does_not_ask_changes_nothing_in_its_answer(page):
    left_out = {*FIELDS} - {*pages.ASKED[page], "page", "pinned"}
    others = replace(
        State(page=page),
        **({"method": "eagle-3"} if "method" in left_out else {}),
        **{name: CHANGES[name] for name in left_out - {"method", "seed"}},
    )
    own = pages._answered(others)
    rest = own.deferred() if own.deferred else DeferredAnswer()
    usual = State(page=page)
    assert told(own, rest) == told(pages.answered(usual), pages.completed(usual))
    assert pages.answered(others) is pages.answered(usual)
    moved = {name: value for name, value in CHANGES.items() if name in pages.ASKED[page]}
    assert pages._page_question(replace(others, **moved)) == replace(usual, **moved)


def test_every_field_of_a_link_is_asked_by_a_page():
    asked_for = {*BAR, *(name for names in OWN.values() for name in names)}
    assert asked_for | {"page", "seed", "pinned"} == set(FIELDS)


def test_a_rate_is_moved_and_rates_are_typed_and_one_becomes_the_other():
    app = opened(page="map", method="eagle-3", known_by="rate")
    assert control(app, "acceptance").value == 0.7 and "acceptance" not in link(app)
    control(app, "acceptance").set_value(0.6).run()
    control(app, "known_by").set_value("rates").run()
    assert is_calm(app) and control(app, "acceptance").value == "0.6"
    control(app, "acceptance").set_value("0.8,0.5").run()
    assert link(app)["acceptance"] == "0.8,0.5"
    control(app, "known_by").set_value("rate").run()
    assert is_calm(app) and control(app, "acceptance").value == 0.8
    assert "--drafter eagle-3:0.8" in codes(app)[0]


def test_every_page_has_a_title():
    assert sorted(PAGES) == sorted(TITLES)


def test_a_press_asks_what_would_hold():
    app = opened(model="llama-3.1-70b")
    assert is_calm(app)
    assert "Nearest that holds: tp 2" in boards(app)["words"]["headline"]
    next(each for each in app.button if each.label == "tp 2").click().run()
    assert is_calm(app)
    assert link(app)["tp"] == "2" and control(app, "tp").value == 2
    assert "Run " in boards(app)["words"]["headline"]


def test_the_engines_command_stands_on_the_page():
    app = opened(method="eagle-3", batch=16)
    one, *files, line = codes(app)
    scheduled = next(text for text in files if text.startswith("vllm serve"))
    assert (
        "--max-num-seqs" not in one + scheduled and '"method":"eagle3"' in one
    )  # no limit of requests was stated
    assert any(text.startswith("#!/bin/sh") for text in files)
    assert "--batch 16" in line


def introduced(app):
    return any("rooftree predicts" in each.value for each in app.markdown)


def test_a_first_visit_says_what_this_is_and_a_link_goes_to_its_answer():
    app = opened()
    assert introduced(app)
    control(app, "batch").set_value(4).run()
    assert not introduced(app) and not introduced(opened(page="map"))


@pytest.mark.usefixtures("_few_devices")
@pytest.mark.parametrize("page", ["pareto", "hardware"])
def test_every_prediction_says_how_far_off_such_are_and_links_there(page):
    app = opened(page=page, batch=8)
    sure = boards(app)["words"]["sure"]
    assert sure["verdict"] in VERDICTS and "h100" in sure["sentence"]
    assert sure["address"].startswith("validation?") and "batch=8" in sure["address"]


def test_pasted_counters_are_read_and_stay_for_the_session():
    app = opened(page="trace")
    app.text_area[0].set_value(VLLM_SCRAPES[1]).run()
    assert is_calm(app) and not app.warning
    assert "pasted text" in boards(app)["words"]["headline"]
    app.run()
    assert "pasted text" in boards(app)["words"]["headline"]
    app.text_area[0].set_value("").run()
    assert "pasted text" not in boards(app)["words"]["headline"]


def test_a_format_in_doubt_is_asked_for():
    app = opened(page="trace")
    app.text_area[0].set_value(f"{LLAMA_COUNTERS}\n{VLLM_LOG}").run()
    assert "several formats" in app.warning[0].value and not codes(app)
    (which,) = [each for each in app.selectbox if each.label == "Its format"]
    which.set_value("vllm-log").run()
    assert is_calm(app) and not app.warning
    assert "1.90 tokens per step" in boards(app)["words"]["headline"]


def test_a_pinned_answer_stands_beside_every_number_and_curve_and_in_the_link():
    app = opened(page="map", batch=4)
    before = dict(boards(app)["words"]["numbers"])
    next(each for each in app.button if each.label == "Pin this answer as A").click().run()
    assert all(value.endswith("(as A)") for _, value in boards(app)["words"]["numbers"])
    control(app, "batch").set_value(64).run()
    assert is_calm(app)
    now = dict(boards(app)["words"]["numbers"])
    then = float(before["Speedup"].rstrip("×"))
    speed = float(now["Speedup"].partition("×")[0])
    assert f"(A: {before['Best K']}, " in now["Best K"]
    assert boards(app)["notes"]["notes"][0].startswith("A is the answer to llama-3.1-8b · batch 4 ")
    assert f"(A: {then:g}" in now["Speedup"].replace("0,", ",") or str(then) in now["Speedup"]
    assert f"{100 * (speed / then - 1):+.1f} %" in now["Speedup"]
    lines = boards(app)["charts"]["cards"][0]["figure"]["data"]
    assert any(line["name"].startswith("A: ") for line in lines if line["type"] == "scatter")
    again = opened(page="map", **link(app))
    assert dict(boards(again)["words"]["numbers"]) == now
    next(each for each in app.button if each.label == "Release A").click().run()
    assert "pinned" not in link(app)
    assert "A:" not in dict(boards(app)["words"]["numbers"])["Speedup"]


@pytest.mark.parametrize("text", ["model=no-such", "pinned=batch%3D4", "x=1", "batch=4&" * 400])
def test_what_is_pinned_is_a_link_of_ours(text):
    state, wrong = from_query({"pinned": text})
    assert wrong and not state.pinned
