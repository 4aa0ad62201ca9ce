"""Tasks in a real browser, each ending in an answer or a file that is what the command line
says."""

import csv
import io
import json
import re
import shlex
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app.answers.optimize.headline import schedule_words
from app.cli.main import main
from app.dashboard.controls.bar import AS_SOLD
from app.dashboard.wording import FOLD, SERVER_FOLD, TITLES
from app.render.charts.charts import digits
from costmodel.optimizers.recommend import DEFAULT_BATCHES
from tests.app.dashboard.test_server import AFTER, BEFORE
from tests.browser.steps import (
    commands,
    dropped,
    followed,
    headline,
    query,
    simulated,
    slid,
    taken_away,
    turned_to,
    typed,
    unfolded,
    where,
)
from tests.traces.importers.samples import VLLM_LOG

RANKED = "smollm2-135m--early-exit--greedy"
LENGTHS = "smollm2-135m--prompt-lookup--greedy"


def said(capsys, line, *more):
    """The JSON answer of a command line that a page hands out."""
    capsys.readouterr()
    assert main([*shlex.split(line)[1:], "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def rows(page, name):
    """A table of the page, a dictionary a row."""
    unfolded(page)
    region = page.get_by_role("region", name=name)
    region.locator("tbody tr").first.wait_for()
    heads = region.locator("thead button").all_inner_texts()
    lines = [line.locator("th, td").all_inner_texts() for line in region.locator("tbody tr").all()]
    return [dict(zip(heads, line, strict=True)) for line in lines]


def number(text):
    return float(text.replace(",", ""))


def test_the_cheapest_of_eight_devices_for_20_requests_a_second(asked, capsys):
    page = asked("page=hardware&method=eagle-3&known_by=rate&rate=20&slo_tpot=20&draft_tokens=3")
    plans = rows(page, "Devices for 20")
    assert len(plans) >= 8
    best = said(capsys, rows(page, "What plans the devices")[0]["command"])["best"]
    assert (plans[0]["device"], number(plans[0]["devices"]), plans[0]["layout"]) == (
        best["device"],
        best["devices"],
        f"tp {best['tp']}",
    )
    assert (
        f"{best['devices']} × {best['device']}" in page.locator("[data-part=behind]").inner_text()
    )


def test_another_page_begins_with_its_fold_closed(asked):
    """A fold that stayed open in the browser alone would have nothing in it."""
    page = asked("page=map&method=eagle-3&batch=8")
    unfolded(page)
    for title in ("Trace lab", "Break-even map"):
        turned_to(page, title)
        fold = page.get_by_test_id("stExpander").filter(has_text=FOLD).locator("details")
        assert fold.get_attribute("open") is None
        assert unfolded(page).locator("[data-part=notes]").count() == 1


def test_two_recordings_are_compared(asked, capsys):
    page = asked(f"page=trace&trace={RANKED}&other_trace={LENGTHS}&draft_tokens=4")
    command = page.locator(".rooftree-code code").inner_text()
    told = said(capsys, command)["rows"]
    table = rows(page, "Side by side")
    for name in (RANKED, LENGTHS):
        known = [number(row[f"{name}: tokens per step"]) for row in table]
        assert any(
            known
            == pytest.approx(
                [row["tokens_per_step"] for row in told[at : at + len(known)]], abs=6e-4
            )
            for at in range(len(told))
        )


def test_a_log_of_vllm_becomes_a_schedule(asked, capsys, tmp_path):
    log = tmp_path / "vllm.log"
    log.write_text(VLLM_LOG)
    page = asked("method=eagle-3&batch=8")
    dropped(page, log)
    assert query(page)["known_by"] == "upload"
    *_, scheduled, line = commands(page)
    batch = query(page)["batch"]
    every = line.replace("YOUR-FILE", str(log)).replace(
        f"--batch {batch} ", f"--batch {','.join(map(str, DEFAULT_BATCHES))} "
    )
    told = said(capsys, every, "--out", str(tmp_path / "out"))
    words = schedule_words(told["schedule"])
    unfolded(page)
    assert words and page.get_by_text(f"Over batches: {words}").count() == 1
    script = (tmp_path / "out" / "vllm" / "vllm-serve.sh").read_text()
    assert shlex.split(scheduled) == shlex.split(script.partition("exec ")[2].replace("\\\n", " "))
    taken_away(page)


def test_two_scrapes_in_the_other_order_become_a_line_to_change(asked, capsys, tmp_path):
    """Dropped on another page than the first, where the answer then stands first."""
    texts = {"before": BEFORE, "after": AFTER}
    files = {name: tmp_path / f"{name}.prom" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    page = asked("page=map&method=eagle-3&batch=8")
    dropped(page, files["after"], files["before"])
    judged = page.locator("[data-part=server] h2")
    page.keyboard.press("Escape")
    page.get_by_text(SERVER_FOLD).click()
    page.get_by_text("was scraped before after.prom").wait_for()
    (line,) = [code for code in commands(page) if "--metrics" in code]
    for name, file in files.items():
        line = line.replace(f"YOUR-FILE-{name.upper()}", str(file))
    told = said(capsys, line, "--out", str(tmp_path / "out"))["counters"]
    assert judged.inner_text().lower() == f"{told['headline']}.".lower()
    old, new = commands(page)[:2]
    assert (old, new) == (told["flags"][0]["old"], told["flags"][0]["new"])
    assert query(page)["known_by"] == "upload" and "K=" in headline(page) + judged.inner_text()
    taken_away(page)
    assert judged.count() == 0


def test_charts_stand_above_the_fold_of_a_server_too(asked, tmp_path):
    files = []
    for name, text in {"before": BEFORE, "after": AFTER}.items():
        files.append(tmp_path / f"{name}.prom")
        files[-1].write_text(text)
    page = asked("page=run&method=eagle-3&batch=8", (1440, 900))
    dropped(page, *files)
    page.keyboard.press("Escape")
    for title in ("Break-even map", "Tree explorer", "Hardware what-if", "What should I run?"):
        turned_to(page, title)
        page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
        top = page.locator(".rooftree-card [role=img]").first.bounding_box()["y"]
        assert top < 900 - 150, f"{title}: the chart begins at {top:.0f}"
    taken_away(page)


def test_50_requests_a_second_with_and_without_drafting(asked, capsys, tmp_path):
    page = asked("page=serving&rate=50&count=60&prompt_tokens=64&output_tokens=16&draft_tokens=5")
    simulated(page)
    assert "sustains" in headline(page)
    line = page.locator(".rooftree-code code").inner_text()
    told = said(capsys, line, "--out", str(tmp_path))
    table = {
        (row["time"], row["statistic"]): row for row in rows(page, "With drafting, and without")
    }
    shown = table["time between deliveries", "mean"]
    drafted = told["load"][0]["metrics"]
    assert number(shown["K = 5 (ms)"]) == pytest.approx(1e3 * drafted["itl_s"]["mean"], rel=1e-3)
    assert set(shown) == {"time", "statistic", "K = 5 (ms)", "no speculation (ms)", "change (%)"}
    assert f"{digits(told['highest_rates'][0]['rate_per_s'])}/s" in headline(page)


def test_a_load_beyond_the_sustained_rate_is_called_overloaded(asked):
    page = asked("page=serving&rate=50")
    simulated(page)
    assert headline(page).startswith("Overloaded at 50.0 requests/s")
    assert "shortens" not in headline(page)


def test_a_point_of_the_front_becomes_the_question_by_keyboard(asked):
    page = asked("page=pareto&batch=8")
    button = page.get_by_role("button", name="tokens/s per user").first
    layout, batch = re.match(r"tp (\d+), batch ([\d,]+)", button.inner_text()).groups()
    with followed(page):
        button.press("Enter")
    assert f"tp {layout}, batch {batch}" in headline(page)
    assert f"--batch {batch.replace(',', '')} " in commands(page)[-1]


def test_charts_stand_above_the_fold_and_tabs_say_their_question(asked):
    for name, title in TITLES.items():
        if name == "serving":
            continue
        page = asked(f"page={name}&batch=16", (1440, 900))
        page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
        top = page.locator(".rooftree-card [role=img]").first.bounding_box()["y"]
        assert top < 900 - 150, f"{name}: the chart begins at {top:.0f}"
        assert page.title().startswith(f"{title} llama-3.1-8b · batch 16")
        header = page.get_by_test_id("stHeader").bounding_box()
        bar = page.locator(".st-key-question").bounding_box()
        assert bar["y"] >= header["y"] + header["height"], "the header hides a part of the bar"


def test_an_own_card_and_an_own_drafter_hold_on_every_page_and_in_the_link(asked, capsys):
    page = asked("page=map&batch=8")
    card = {
        "bandwidth_gb_per_s": "6700",
        "draft_bytes": "350MB",
        "draft_passes": "4",
        "draft_name": "ours",
    }
    for name, text in card.items():
        typed(page, name, text)
        page.keyboard.press("Escape")
    shown = {}
    for title in ("Hardware what-if", "Pareto", "What should I run?"):
        turned_to(page, title)
        assert query(page) == card | {"model": "llama-3.1-8b", "batch": "8", "known_by": "rate"}
        assert "h100-sxm, modified" in page.title() and "ours · 0.7" in page.title()
        line = commands(page)[-1]
        assert "--set device.bandwidth_bytes_per_s=6.7e+12 --draft-name ours" in line
        shown[where(page)] = headline(page), line
    (point,) = said(capsys, shown["hardware"][1])["predictions"]
    assert shown["hardware"][0].startswith(
        f"h100-sxm, modified: {digits(point['tokens_per_s'])} tokens/s"
    )
    assert shown["run"][0].startswith("Run ours with")
    other = asked(f"page=hardware&{urlencode(query(page))}")
    assert (headline(other), commands(other)[-1]) == shown["hardware"]
    page.locator(".st-key-group-Device-card button").first.click()
    with followed(page):
        page.get_by_role("button", name=AS_SOLD).click()
    assert "bandwidth_gb_per_s" not in query(page)
    assert "modified" not in page.title() and "--set" not in commands(page)[-1]
    page.keyboard.press("Escape")


def test_the_front_is_taken_along(asked, capsys):
    page = asked("page=pareto&batch=64")
    line = page.locator(".rooftree-card [role=img]").first.evaluate(
        "plot => {const text = plot.data.filter(each => each.name === 'tp 2').flatMap(each =>"
        " each.customdata).find(each => !each.startsWith('?')); plot.emit('plotly_click',"
        " {points: [{customdata: text}]}); return text; }"
    )
    shown = page.locator(".rooftree-card .picked code")
    shown.wait_for()
    assert shown.inner_text() == line and "--tp 2" in line
    with page.expect_download() as started:
        page.get_by_role("button", name="Download pareto.csv").click()
    table = list(csv.DictReader(io.StringIO(Path(started.value.path()).read_text())))
    (point,) = said(capsys, line)["predictions"]
    assert any(
        float(row["tokens/s per device"]) == pytest.approx(point["tokens_per_s"] / 2, rel=1e-3)
        for row in table
    )
    slid(page, "batch", "ArrowLeft")
    assert shown.is_hidden()


def test_a_limit_is_answered_first_and_what_it_allows_is_a_press_away(asked, capsys, tmp_path):
    page = asked("slo_tpot=5", (1440, 900))
    line = commands(page)[-1]
    (within,) = said(capsys, line, "--out", str(tmp_path))["within_limits"]
    users = f"{within['users']:,}"
    first = f"Within 5 ms a token at context 1,024: up to {users} users"
    assert headline(page).startswith(first)
    price = digits(within["usd_per_million_tokens"])
    assert f"{digits(within['tokens_per_s'])} tokens/s, ${price} per million" in headline(page)
    unfolded(page)
    assert page.get_by_text("More users within the limits").count() == 1
    with followed(page):
        page.get_by_role("button", name=f"batch {users}", exact=True).click()
    assert query(page)["batch"] == str(within["users"])
    assert headline(page).startswith(first) and f"at batch {users} " in headline(page)


def test_the_recommended_length_is_taken_along_and_the_crossing_is_said(asked, capsys):
    page = asked("method=eagle-3&known_by=rate&acceptance=0.6&batch=256")
    drafts = re.search(r"--draft-tokens (\d+)", ask_hardware(page)).group(1)
    words = page.locator("[data-part=charts]").inner_text()
    unfolded(page)
    line = rows(page, "What says where drafting pays")[0]["command"]
    assert f"--draft-tokens {drafts} " in line and f"K {drafts}, as recommended" in headline(page)
    curves = said(capsys, line)["curves"]
    for curve in curves:
        for crossing in curve["crossings"]:
            scale = 1e12 if curve["over"] == "bandwidth_bytes_per_s" else 1.0
            assert f"{digits(crossing['value'] / scale)} " in words


def ask_hardware(page):
    """The command line of the hardware page, asked in the session of another page."""
    turned_to(page, TITLES["hardware"])
    return commands(page)[-1]
