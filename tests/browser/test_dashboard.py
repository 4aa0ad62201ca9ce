"""The dashboard in a real browser, from its own server: journeys, links, colours and a phone."""

import json
from pathlib import Path
from urllib.parse import parse_qs

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app.dashboard.state import State
from tests.browser.screenshots import reached, settled, simulated
from traces.library import shipped_confidence, shipped_traces

MODEL = State().model
RANKED = "smollm2-135m--early-exit--greedy"


def asked_for(page):
    """The page's question as one query, which names the page too."""
    return f"page={where(page)}&{page.evaluate('location.search.slice(1)')}"


def where(page):
    return page.evaluate("location.pathname.slice(1)") or "run"


def query(page):
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.search.slice(1)")).items()}


def headline(page):
    return page.locator("[data-part=words] h2").inner_text()


def slid(page, name, key="ArrowRight"):
    """Move a slider by a key and wait until every chart follows."""
    charts = "document.querySelector('[data-part=charts]').dataset.settled"
    before = page.evaluate(charts)
    reached(page, name).locator("input[type=range]").first.focus()
    page.keyboard.press(key)
    page.wait_for_function(f"before => {charts} !== before", arg=before)
    settled(page)


def turned_to(page, title):
    page.get_by_test_id("stSidebarNavLink").get_by_text(title, exact=True).click()
    page.get_by_role("heading", name=title, level=1).wait_for()
    settled(page)


def test_the_headline_follows_the_batch_and_the_link_follows_both(opened):
    page = opened("page=run")
    assert "batch 1 " in headline(page)
    slid(page, "batch")
    assert "batch 2 " in headline(page)
    assert query(page)["batch"] == "2"


def test_a_chart_is_changed_in_place(opened):
    page = opened("page=map")
    page.evaluate("document.querySelector('.rooftree-card .main-svg').dataset.mine = 'yes'")
    colors = "[...document.querySelector('.rooftree-card [role=img]').data[0].z.flat()].join()"
    before = page.evaluate(colors)
    for _ in range(4):
        slid(page, "draft_tokens", "ArrowLeft")
    assert page.evaluate(colors) != before
    assert page.evaluate("document.querySelector('.rooftree-card .main-svg').dataset.mine") == "yes"


def test_a_link_opened_elsewhere_says_the_same(opened):
    page = opened("page=map&batch=16&draft_tokens=3&method=eagle-3&known_by=rate&acceptance_ratio=0.6")
    slid(page, "batch")
    again = opened(asked_for(page))
    assert headline(again) == headline(page)
    assert (where(again), query(again)) == (where(page), query(page))
    assert query(again)["batch"] == "24"


def test_pages_change_and_keep_the_question(opened):
    page = opened("page=map&model=llama-3.2-1b")
    turned_to(page, "Hardware what-if")
    page.get_by_text("Roofline of the step").wait_for()
    assert (where(page), query(page)) == ("hardware", {"model": "llama-3.2-1b"})
    turned_to(page, "Trace lab")
    page.get_by_text("Acceptance by depth").wait_for()
    assert page.get_by_text("Roofline of the step").count() == 0


def test_a_part_of_a_link_that_cannot_be_is_left_out_in_words(opened):
    page = opened("page=map&batch=-3&device=%3Cscript%3Ealert(1)%3C/script%3E")
    assert page.get_by_test_id("stAlert").count() == 2
    assert "Left out of the link" in page.get_by_test_id("stAlert").first.inner_text()
    page.locator("[data-part=charts]").wait_for()
    assert "fit" in headline(page)


def test_what_fits_nowhere_is_a_message_and_the_next_choice_an_answer(opened):
    page = opened("page=pareto&model=llama-3.1-405b&device=l4")
    assert "fits no layout" in page.get_by_test_id("stAlert").inner_text()
    turned_to(page, "Trace lab")
    page.get_by_text("Acceptance by depth").wait_for()


def test_the_configuration_is_downloaded_with_its_link_and_command(opened):
    page = opened("page=hardware&bandwidth_ratio=2")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download configuration").click()
    body = json.loads(Path(started.value.path()).read_text())
    assert body["query"] == {"page": "hardware", "bandwidth_ratio": "2"}
    assert body["command"].startswith("rooftree predict")
    assert body["command"] in page.get_by_test_id("stCode").inner_text()


def test_the_tree_is_downloaded_as_it_is_drawn(opened):
    page = opened("page=tree&tree_nodes=8")
    slid(page, "tree_nodes")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download tree.json").click()
    assert len(json.loads(Path(started.value.path()).read_text())["parents"]) == 10


def test_published_trees_stand_beside_the_chosen_one(opened):
    page = opened("page=tree")
    rows = page.get_by_role("region", name="Shapes compared").locator("tbody tr")
    assert {"Medusa, 63 nodes", "EAGLE, 25 nodes", "Sequoia, 63 nodes"} <= set(rows.locator("th").all_inner_texts())


def test_a_table_is_sorted_by_a_press_on_its_head(opened):
    page = opened("page=hardware")
    table = page.get_by_role("region", name="Every device")
    button = table.get_by_role("button", name="tokens/s per device")
    for order in ("descending", "ascending"):
        button.click()
        shown = [text.replace(",", "") for text in table.locator("tbody td:nth-child(6)").all_inner_texts()]
        values = [float(text) for text in shown if text != "–"]
        assert values == sorted(values, reverse=order == "descending")
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == order


def test_a_recording_is_uploaded_read_and_compared(opened):
    page = opened("page=trace&other_trace=" + RANKED)
    page.locator("input[type=file]").set_input_files(str(shipped_traces()[-1]))
    name = shipped_traces()[-1].name
    page.get_by_text(f"{name}, tokens per step").wait_for()
    assert name in headline(page) and RANKED in headline(page)
    region = page.get_by_role("region", name="Side by side")
    assert f"{RANKED}: tokens per step" in region.locator("thead").inner_text()


def test_a_confidence_trace_is_uploaded_and_another_file_refused_in_words(opened):
    page = opened("page=diffusion&cache=dual")
    page.locator("input[type=file]").set_input_files(str(shipped_confidence()[0]))
    page.get_by_text("YOUR-FILE").wait_for()
    page.locator("input[type=file]").set_input_files(str(shipped_traces()[0]))
    page.get_by_test_id("stAlert").wait_for()
    assert page.get_by_test_id("stException").count() == 0


def test_back_leads_from_page_to_page_and_not_from_move_to_move(opened):
    page = opened("page=map")
    for _ in range(3):
        slid(page, "batch")
    turned_to(page, "Hardware what-if")
    slid(page, "batch")
    turned_to(page, "Trace lab")
    page.go_back()
    page.get_by_role("heading", name="Hardware what-if", level=1).wait_for()
    settled(page)
    assert (where(page), query(page)) == ("hardware", {"model": MODEL, "batch": "12"})
    page.go_back()
    page.get_by_role("heading", name="Break-even map", level=1).wait_for()
    settled(page)
    assert (where(page), query(page)) == ("map", {"model": MODEL, "batch": "8"})


def test_a_file_that_is_no_recording_is_refused_in_words(opened, tmp_path):
    (tmp_path / "bad.jsonl").write_text("{" * 100)
    page = opened("page=trace")
    page.locator("input[type=file]").set_input_files(str(tmp_path / "bad.jsonl"))
    page.get_by_test_id("stAlert").wait_for()
    assert page.get_by_test_id("stException").count() == 0


def test_a_simulation_runs_and_shows_its_timeline(opened):
    page = opened("page=serving&count=20&prompt_tokens=64&output_tokens=16")
    simulated(page)
    assert "requests/s drafting" in headline(page)


def test_a_simulation_is_cancelled(opened):
    page = opened("page=serving&count=2000&prompt_tokens=8192&output_tokens=8192&rate=50")
    page.get_by_role("button", name="Run the simulation").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Press the button to simulate").wait_for()
    assert page.get_by_role("button", name="Cancel").count() == 0
    assert page.get_by_text("Goodput against load").count() == 0


def test_another_measured_device_is_chosen(opened):
    page = opened("page=validation")
    before = page.locator("[data-part=words]").inner_text()
    page.locator(".st-key-asked-measured").get_by_role("combobox").click()
    page.get_by_role("option").last.click()
    page.wait_for_function("before => document.querySelector('[data-part=words]').innerText !== before", arg=before)
    assert "measured" in query(page)
