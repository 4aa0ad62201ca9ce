"""The report in a real browser, from a file and without a network: no error, every plot drawn,
readable everywhere."""

from functools import partial

import numpy as np
import pytest

from app.cli.main import main
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.storage.acceptance_file import write_acceptance

pytest.importorskip("plotly", reason="plotly, of the extra `app`, is not installed")

LOOKS = pytest.mark.parametrize(
    ("size", "scheme"), [((1280, 800), "light"), ((390, 844), "dark")], ids=["desktop", "phone"]
)
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>"


def recording(path, method, model, hits):
    """A level 2 recording of eight texts whose first candidate is right at a share `hits` of the
    positions."""
    random = np.random.default_rng(len(method))
    rank = np.where(random.random(800) < hits, 0, random.integers(-1, 4, 800)).astype(np.int8)
    emitted, run = np.ones(800, dtype=np.int16), 0
    for i in reversed(range(800)):
        run = 0 if rank[i] else run % 100 + 1
        run = min(run, 100 - i % 100)
        emitted[i] = min(run + 1, 100 - i % 100)
    trace = AcceptanceTrace(
        provenance=Provenance(
            model=model, method=method, drafter=HOSTILE, sampling={"temperature": 0.0}
        ),
        prompt_kinds=("chat", "code") * 4,
        prompt_tokens=np.full(8, 50),
        offsets=np.arange(9) * 100,
        emitted=emitted,
        rank=rank,
        rank_width=8,
        depth_invariant=True,
    )
    write_acceptance(trace, path)
    return str(path)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page with trees, three lines, two contexts and a model name that tries to break out."""
    folder = tmp_path_factory.mktemp("report")
    traces = [
        recording(folder / "medusa.parquet", "medusa", HOSTILE, 0.7),
        recording(folder / "eagle.parquet", "eagle-3", "llama-3.1-8b", 0.8),
        recording(folder / "exit.parquet", "early-exit", "llama-3.1-8b", 0.6),
    ]
    named = [word for trace in traces for word in ("--trace", trace)]
    words = [
        *named,
        "--model",
        "llama-3.1-8b",
        "--batch",
        "1,4,16,64",
        "--context",
        "512,4096",
        "--engine",
        "none",
    ]
    assert (
        main(["optimize", *words, "--tree-nodes", "8,24", "--out", str(folder / "out"), "--quiet"])
        == 0
    )
    return folder / "out" / "report.html"


@pytest.fixture
def opened(drawn, report):
    """Open the report at a size and in a colour scheme."""
    return partial(drawn, report)


@LOOKS
def test_the_page_is_drawn_and_fits(opened, size, scheme, tmp_path):
    page = opened(size, scheme)
    page.screenshot(path=tmp_path / f"report-{scheme}-{size[0]}.png", full_page=True)
    assert (tmp_path / f"report-{scheme}-{size[0]}.png").stat().st_size > 20_000
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], (
        "the body never scrolls sideways"
    )
    shown = page.locator("figure:visible .plot")
    assert shown.count() == 5
    for index in range(shown.count()):
        marks = shown.nth(index).locator(".scatterlayer .point, .barlayer .point").count()
        assert marks >= 4, shown.nth(index).get_attribute("id")
    assert page.locator("figure:visible h2").first.is_visible()


@LOOKS
def test_nothing_sticks_out_of_its_card(opened, size, scheme):
    page = opened(size, scheme)
    widths = page.evaluate(
        """() => [...document.querySelectorAll("figure:not([hidden]):not(.wide)")].map(card =>
          [...card.querySelectorAll("svg .legendtext, svg .xtick text, svg .ytick text")].every(text => {
            const [inner, outer] = [text.getBoundingClientRect(), card.getBoundingClientRect()];
            return inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
          }))"""
    )
    assert widths == [True] * 4


def test_the_other_context_is_drawn_when_it_is_picked(opened):
    page = opened()
    before = page.locator("#speedup-0 .point").count()
    page.locator("input[value='1']").check()
    page.locator("#speedup-1 svg.main-svg").first.wait_for()
    assert page.locator("#speedup-1").is_visible()
    assert page.locator("#speedup-0").is_hidden()
    assert page.locator("#speedup-1 .point").count() == before
    assert page.locator("#tree svg.main-svg").first.is_visible(), "what depends on no context stays"
    page.locator("input[value='0']").check()
    assert page.locator("#speedup-0").is_visible() and page.locator("#speedup-1").is_hidden()


def test_the_colours_follow_the_reader(opened):
    page = opened()
    colors = """() => [getComputedStyle(document.body).backgroundColor,
      document.querySelector('#speedup-0 .xtick text').style.fill]"""
    light = page.evaluate(colors)
    page.emulate_media(color_scheme="dark")
    others = "old => document.querySelector('#speedup-0 .xtick text').style.fill !== old"
    page.wait_for_function(others, arg=light[1])
    dark = page.evaluate(colors)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    page.emulate_media(color_scheme="light")
    page.wait_for_function(others, arg=dark[1])
    assert page.evaluate(colors) == light


def test_a_point_tells_its_draft_and_its_interval(opened):
    page = opened()
    page.locator("#speedup-0 .point").first.scroll_into_view_if_needed()
    box = page.locator("#speedup-0 .point").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    told = page.locator("#speedup-0 .hoverlayer .hovertext").first
    told.wait_for()
    words = told.text_content()
    assert "batch 1" in words
    assert "80 %" in words
    assert "chain:" in words or "tree:" in words


def test_names_from_files_are_words(opened):
    page = opened()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img").count() == 0
    assert HOSTILE in page.locator("main").inner_text(), "the recorded model's name, as it is"
