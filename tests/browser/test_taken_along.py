"""What a reader takes along from a page, and points of charts that ask another question, by mouse
and by keyboard."""

import csv
import io
import json
import re
import shlex
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app.cli.main import main
from app.dashboard.state import State
from costmodel.optimizers.recommend import DEFAULT_BATCHES
from tests.browser.screenshots import patient
from tests.browser.steps import (
    DRAWN,
    UNSIMULATED,
    commands,
    dropped,
    followed,
    headline,
    query,
    simulated,
)
from traces.library import shipped_traces

STEM = "rooftree-{}-llama-3.1-8b-batch-8-context-1024-1-h100-sxm-vllm-all-published"
PAGES_OF_PDF = re.compile(rb"/Type\s*/Page\b")


def downloaded(page, button):
    """The name and the content of what a button gives."""
    with page.expect_download() as started:
        page.get_by_role("button", name=button, exact=True).click()
    return started.value.suggested_filename, Path(started.value.path()).read_bytes()


def points(page, title):
    """The place by which the keyboard reaches the points of a chart."""
    return page.get_by_role("application", name=f"Points of {title}:")


def place_of(page, title, name, at):
    """Where on the screen a point of a line stands."""
    plot = page.get_by_role("img", name=f"{title}. ")
    plot.scroll_into_view_if_needed()
    return plot.evaluate(
        """(plot, [name, at]) => {
            const line = plot.data.findIndex(each => each.name === name && each.customdata);
            const mark = plot.querySelectorAll(".scatterlayer .trace")[
                plot.data.slice(0, line).filter(each => each.type === "scatter").length
            ].querySelectorAll(".point")[at].getBoundingClientRect();
            return [mark.x + mark.width / 2, mark.y + mark.height / 2];
        }""",
        [name, at],
    )


def test_a_chart_is_a_picture_with_its_title_in_its_name(asked):
    from PIL import Image

    name, content = downloaded(asked("page=run&batch=8"), "PNG of Speedup")
    assert name == f"{STEM.format('speedup')}.png"
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    assert picture.width > 600 and picture.height > 400
    assert picture.getpixel((2, picture.height - 2)) == (255, 255, 255), "it has a ground"
    assert len(picture.getcolors(1 << 24)) > 50, "and something is drawn on it"


def test_the_numbers_of_a_chart_are_those_of_the_command(asked, capsys):
    page = asked("page=run&batch=8")
    name, content = downloaded(page, "CSV of Speedup")
    assert name == f"{STEM.format('speedup')}.csv"
    drawn = list(csv.DictReader(io.StringIO(content.decode())))
    batches = ",".join(map(str, DEFAULT_BATCHES))
    line = commands(page)[-1].replace("--batch 8 ", f"--batch {batches} ")
    capsys.readouterr()
    assert main([*shlex.split(line)[1:], "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = [*told["choices"], *told["alternatives"]]
    assert {
        (row["line"], int(row["batch (requests)"])): float(row["speedup (×)"]) for row in drawn
    } == {(row["drafter"], row["batch"]): row["speedup"] for row in rows}


def test_the_cells_of_a_map_have_their_batch_and_context(asked):
    page = asked("page=map&batch=8")
    _, content = downloaded(page, "CSV of Speedup of the best K")
    cells = {
        (row["batch (requests)"], row["context (tokens per request)"]): row["×"]
        for row in csv.DictReader(io.StringIO(content.decode()))
    }
    speedup = page.locator("[data-part=words] dl > div").nth(1).locator("dd").inner_text()
    assert f"{float(cells['8', '1024']):.2f}×" == speedup
    assert cells["512", "65536"] == "", "it does not fit"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_one_page_of_paper_without_a_network(asked, server, browser, tmp_path, scheme):
    page = asked("page=run&batch=8")
    name, content = downloaded(page, "Download report")
    assert name == f"{STEM.format('what-should-i-run')}.html"
    (tmp_path / name).write_bytes(content)
    wrong = []
    report = patient(browser.new_page(viewport={"width": 900, "height": 700}, color_scheme=scheme))
    report.on("pageerror", lambda error: wrong.append(str(error)))
    report.on(
        "request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url)
    )
    report.goto((tmp_path / name).as_uri())
    report.wait_for_function(DRAWN)
    assert report.locator(".plot").count() >= 2
    assert report.get_by_role("heading", level=1).inner_text() == headline(page)
    address = report.get_by_role("link").get_attribute("href")
    path, _, asked_there = address.partition("?")
    assert path == f"{server}/run"
    assert dict(parse_qsl(asked_there)) == query(page)
    assert commands(page)[-1] in report.locator("code").all_inner_texts()
    for paper in ("A4", "Letter"):
        printed = report.pdf(format=paper, margin=dict.fromkeys(("top", "bottom"), "10mm"))
        assert len(PAGES_OF_PDF.findall(printed)) == 1, paper
    assert wrong == []
    report.close()


def test_a_recording_of_ones_own_is_reported_and_named_in_the_tab(asked):
    page = asked("page=trace")
    dropped(page, shipped_traces()[-1])
    name = shipped_traces()[-1].name
    assert name in headline(page)
    assert page.title().endswith("a recording of my own")
    _, content = downloaded(page, "Download report")
    assert name in content.decode() and "rooftree-session" not in content.decode()
    _, content = downloaded(page, "Download CSV")
    assert content.startswith(b"draft,draft_tokens,tokens_per_step,")


def test_a_point_that_is_pressed_is_the_question(asked):
    page = asked("page=run&batch=8")
    x, y = place_of(page, "Speedup", "eagle-3", DEFAULT_BATCHES.index(64))
    page.mouse.move(x, y)
    page.locator(".hoverlayer text", has_text="ms per token").first.wait_for()
    with followed(page):
        page.mouse.click(x, y)
    assert query(page)["batch"] == "64" and "batch 64 " in headline(page)
    assert page.title().startswith("What should I run? llama-3.1-8b · batch 64")


def test_a_point_is_reached_by_arrows_and_asked_by_enter(asked):
    page = asked("page=map&batch=8")
    place = points(page, "Best number of draft tokens K")
    place.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    said = place.locator("xpath=..").locator("[aria-live]").inner_text()
    assert said.startswith("batch 2, context 256 tokens, K = ") and "per million" in said
    page.locator(".hoverlayer text", has_text="context 256").first.wait_for()
    with followed(page):
        page.keyboard.press("Enter")
    assert (query(page)["batch"], query(page)["context"]) == ("2", "256")
    assert "At batch 2 and context 256" in headline(page)


@pytest.mark.parametrize(
    ("link", "title", "fields"),
    [
        ("page=hardware&batch=8", "Price and energy of every device", {"device"}),
        ("page=pareto&batch=8", "Tokens per user against tokens per device", {"batch"}),
        ("page=tree&tree_nodes=8", "Tokens per step against size", {"tree_nodes"}),
        ("page=trace&draft_tokens=6", "Law against replay", {"draft_tokens"}),
    ],
)
def test_charts_of_other_pages_ask_by_keyboard_too(asked, link, title, fields):
    page = asked(link)
    points(page, title).focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    before = query(page)
    with followed(page):
        page.keyboard.press("Enter")
    now = query(page)
    assert all(now.get(name, State().model) != before.get(name) for name in fields)


def test_a_rate_of_a_load_is_asked_by_its_point(asked):
    page = asked("page=serving&count=10&prompt_tokens=64&output_tokens=16")
    simulated(page)
    points(page, "Goodput against load").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    with followed(page):
        page.keyboard.press("Enter")
    assert page.get_by_text(UNSIMULATED).count() == 1
    assert float(query(page)["rate"]) > 0


def test_charts_without_points_to_press_are_not_reached_by_the_keyboard(asked):
    page = asked("page=hardware&batch=8")
    assert points(page, "Roofline of the step").count() == 0
    assert page.get_by_role("button", name="PNG of Roofline of the step").count() == 1
