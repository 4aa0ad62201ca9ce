"""The dashboard in a real browser, from its own server: what follows a change, what is downloaded
and what uploaded."""

import json
from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app.dashboard.state import State
from tests.browser.steps import (
    UNSIMULATED,
    dropped,
    followed,
    headline,
    is_at,
    query,
    settled,
    slid,
    taken_away,
    turned_to,
    unfolded,
    where,
)
from traces.library import shipped_confidence, shipped_traces

MODEL = State().model
RANKED = "smollm2-135m--early-exit--greedy"


def given(page, path):
    """Choose a file on the page, where the place for it can be seen."""
    place = page.locator("details", has_text="of your own")
    if place.get_attribute("open") is None:
        place.locator("summary").click()
    page.locator("input[type=file]").set_input_files(str(path))


def test_the_headline_follows_the_batch_and_the_link_follows_both(asked):
    page = asked("page=run")
    assert "batch 1 " in headline(page)
    slid(page, "batch")
    assert "batch 2 " in headline(page)
    assert query(page)["batch"] == "2"


def test_a_chart_is_changed_in_place(asked):
    page = asked("page=map")
    page.evaluate("document.querySelector('.rooftree-card .main-svg').dataset.mine = 'yes'")
    colors = "[...document.querySelector('.rooftree-card [role=img]').data[0].z.flat()].join()"
    before = page.evaluate(colors)
    for _ in range(2):
        slid(page, "tp")
    assert page.evaluate(colors) != before
    assert page.evaluate("document.querySelector('.rooftree-card .main-svg').dataset.mine") == "yes"


def test_pages_change_and_keep_the_question(asked):
    page = asked("page=map&model=llama-3.2-1b")
    turned_to(page, "Hardware what-if")
    page.get_by_text("Roofline of the step").wait_for()
    assert (where(page), query(page)) == ("hardware", {"model": "llama-3.2-1b"})
    turned_to(page, "Trace lab")
    page.get_by_text("Acceptance by depth").wait_for()
    assert page.get_by_text("Roofline of the step").count() == 0


def test_a_part_of_a_link_that_cannot_be_is_left_out_in_words(asked, server):
    page = asked()
    page.goto(f"{server}/?page=map&batch=-3&device=%3Cscript%3Ealert(1)%3C/script%3E")
    page.get_by_test_id("stAlert").nth(1).wait_for()
    assert page.get_by_test_id("stAlert").count() == 2
    assert "Left out of the link" in page.get_by_test_id("stAlert").first.inner_text()
    settled(page)
    assert "fit" in headline(page)


def test_what_fits_nowhere_is_a_message_and_the_next_choice_an_answer(asked):
    page = asked("page=pareto&model=llama-3.1-405b&device=l4")
    assert "fits no layout" in page.get_by_test_id("stAlert").inner_text()
    turned_to(page, "Trace lab")
    page.get_by_text("Acceptance by depth").wait_for()


def test_the_configuration_is_downloaded_with_its_link_and_command(asked):
    page = asked("page=map&bandwidth_ratio=2")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download configuration").click()
    body = json.loads(Path(started.value.path()).read_text())
    assert body["query"] == {"page": "map", "bandwidth_gb_per_s": "6700"}
    assert body["command"].startswith("rooftree optimize")
    assert "--set device.bandwidth_bytes_per_s=" in body["command"]
    assert body["command"] in page.locator(".rooftree-code code").inner_text()


def test_the_tree_is_downloaded_as_it_is_drawn_beside_published_ones(asked):
    page = asked("page=tree&tree_nodes=8")
    slid(page, "tree_nodes")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download tree.json").click()
    assert len(json.loads(Path(started.value.path()).read_text())["parents"]) == 10
    unfolded(page)
    rows = page.get_by_role("region", name="Shapes compared").locator("tbody tr")
    assert {"Medusa, 63 nodes", "EAGLE, 25 nodes", "Sequoia, 63 nodes"} <= set(
        rows.locator("th").all_inner_texts()
    )


def test_a_table_is_sorted_by_a_press_on_its_head(asked):
    page = asked("page=hardware")
    unfolded(page)
    table = page.get_by_role("region", name="Every device")
    button = table.get_by_role("button", name="tokens/s per device")
    for order in ("descending", "ascending"):
        button.click()
        shown = [
            text.replace(",", "")
            for text in table.locator("tbody td:nth-child(6)").all_inner_texts()
        ]
        values = [float(text) for text in shown if text != "–"]
        assert values == sorted(values, reverse=order == "descending")
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == order


def test_a_file_is_refused_in_words_and_a_recording_read_and_compared(asked, tmp_path):
    (tmp_path / "bad.jsonl").write_text("{" * 100)
    page = asked("page=trace&other_trace=" + RANKED)
    dropped(page, tmp_path / "bad.jsonl", refused=True)
    assert page.get_by_test_id("stException").count() == 0
    taken_away(page)
    dropped(page, shipped_traces()[-1])
    name = shipped_traces()[-1].name
    assert page.get_by_text(f"{name}, tokens per step").count() == 1
    assert name in headline(page) and RANKED in headline(page)
    unfolded(page)
    region = page.get_by_role("region", name="Side by side")
    assert f"{RANKED}: tokens per step" in region.locator("thead").inner_text()
    taken_away(page)
    assert page.get_by_text(f"{name}, tokens per step").count() == 0


def test_a_confidence_trace_is_uploaded_and_another_file_refused_in_words(asked):
    page = asked("page=diffusion&cache=dual")
    given(page, shipped_confidence()[0])
    page.locator(".rooftree-code").filter(has_text="YOUR-FILE").wait_for()
    settled(page)
    assert page.get_by_test_id("stAlert").count() == 0
    given(page, shipped_traces()[0])
    page.get_by_test_id("stAlert").wait_for()
    settled(page)
    assert page.get_by_test_id("stException").count() == 0
    taken_away(page)


def test_back_leads_from_page_to_page_and_not_from_move_to_move(asked):
    page = asked("page=map")
    for _ in range(3):
        slid(page, "batch")
    turned_to(page, "Trace lab")
    slid(page, "batch")
    turned_to(page, "Validation")
    page.go_back()
    is_at(page, "Trace lab")
    assert (where(page), query(page)) == ("trace", {"model": MODEL, "batch": "12"})
    page.go_back()
    is_at(page, "Break-even map")
    assert (where(page), query(page)) == ("map", {"model": MODEL, "batch": "8"})
    slid(page, "context")
    assert query(page)["batch"] == "8", "nothing but the slider that moves departs from the address"


def test_a_simulation_is_cancelled(asked):
    page = asked("page=serving&count=2000&prompt_tokens=8192&output_tokens=8192&rate=50")
    page.get_by_role("button", name="Run the simulation").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text(UNSIMULATED).wait_for()
    settled(page)  # until then the buttons of the run before stand beside it
    assert page.get_by_role("button", name="Cancel").count() == 0
    assert page.get_by_text("Goodput against load").count() == 0


def test_another_measured_device_is_chosen(asked):
    page = asked("page=validation")
    words = page.locator("[data-part=words]")
    before = words.inner_text()
    with followed(page):
        page.locator(".st-key-asked-measured").get_by_role("combobox").click()
        page.get_by_role("option").last.click()
    assert words.inner_text() != before
    assert "measured" in query(page)
