"""The answer that a page's document holds: what Streamlit's page says afterwards, in its place, and
gone by then.

Streamlit's own scripts are kept from loading where a test looks at what a visitor reads before
them.
"""

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)

from tests.browser.steps import POLL_MS, settled  # noqa: E402
from tests.browser.test_dashboard_pages import DESKTOP, PHONE, findings  # noqa: E402

FIRST, LIVE = "#rooftree-first", "#root"
LINKS = {
    "batch": "page=run&batch=8",
    "recording": "page=run&known_by=recording",
    "limits": "page=run&slo_tpot_ms=0.01",
    "map": "page=map&context=4096",
    "trace": "page=trace&other_trace=smollm2-135m--prompt-lookup--greedy",
    "hardware": "page=hardware&batch=16",
    "validation": "page=validation&model=llama-3.1-8b",
}
SAYS = """where => {
    const part = document.querySelector(where);
    const texts = kind => [...part.querySelectorAll(kind)].map(each => each.innerText);
    const words = part.querySelector("h2").parentElement;
    return [texts("h1"), texts("h2:not([hidden])"), words.innerText.trim(), texts(".rooftree-code code")[0] ?? ""];
}"""
PLACES = """where => ["h1", "h2"].map(kind => {
    const { x, y, width, height } = document.querySelector(where).querySelector(kind).getBoundingClientRect();
    return [x, y, width, height];
})"""
INK = """where => ["h1", "h2", "dt", "dd"].map(kind => {
    const found = getComputedStyle(document.querySelector(where).querySelector(kind));
    return [found.color, found.fontFamily.split(",")[0], found.fontSize, found.fontWeight];
})"""
BACK = "where => getComputedStyle(document.querySelector(where)).backgroundColor"


@pytest.fixture
def document_of(tabs, server):
    """A link's document alone, in a colour scheme."""
    pages = []

    def open_page(link, scheme="light"):
        page = tabs[0]()
        pages.append(page)
        page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
        page.emulate_media(color_scheme=scheme)
        page.route("**/static/js/index*", lambda route: route.abort())
        page.goto(f"{server}/?{link}")
        return page

    yield open_page
    for page in pages:
        page.close()


@pytest.mark.parametrize("name", LINKS)
def test_the_document_says_what_the_page_says_where_the_page_says_it(asked, document_of, name):
    after = asked(LINKS[name], DESKTOP)
    before = document_of(LINKS[name])
    first, live = before.evaluate(SAYS, FIRST), after.evaluate(SAYS, LIVE)
    assert first[:3] == live[:3]
    assert first[3] in ("", live[3]), "the engine's command; pages without one end with rooftree's"
    before.evaluate("document.fonts.ready")
    for size in (DESKTOP, PHONE):
        for page in (before, after):
            page.set_viewport_size({"width": size[0], "height": size[1]})
        for mine, other in zip(
            before.evaluate(PLACES, FIRST), after.evaluate(PLACES, LIVE), strict=True
        ):
            assert mine == pytest.approx(other, abs=1.0), "nothing moves when the page takes over"
        assert before.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_look_like_the_page_and_bear_no_grave_finding(asked, document_of, scheme):
    after = asked(LINKS["map"], DESKTOP, scheme)
    before = document_of(LINKS["map"], scheme)
    assert before.evaluate(INK, FIRST) == after.evaluate(INK, LIVE)
    assert before.evaluate(BACK, FIRST) == after.evaluate(BACK, "[data-testid=stApp]")
    before.locator("[data-part=first][data-settled]").wait_for()
    assert before.locator(f"{FIRST} .js-plotly-plot .main-svg").count()
    assert findings(before) == []


def test_a_first_visitor_reads_scrolls_on_and_is_handed_the_page(asked, tabs, server):
    asked("page=run")  # so that the answer is there
    page, held = tabs[0](), []

    def hold(route):
        held.append(route)

    page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    page.route("**/_stcore/host-config", hold)
    page.goto(server)
    page.wait_for_function(f"document.querySelector('{LIVE}').inert", polling=POLL_MS)
    page.evaluate("document.fonts.ready")
    page.evaluate(f"document.querySelector('{FIRST} main').scrollTop = 10")
    first, places = page.evaluate(SAYS, FIRST), page.evaluate(PLACES, FIRST)
    while not held:
        page.wait_for_timeout(POLL_MS)
    page.unroute("**/_stcore/host-config")  # which lets go what is held
    settled(page)
    assert page.locator(FIRST).count() == 0
    assert not page.evaluate(f"document.querySelector('{LIVE}').inert")
    assert page.evaluate(SAYS, LIVE)[:3] == first[:3]
    assert page.evaluate("document.querySelector('.stMain').scrollTop") == 10
    for mine, other in zip(places, page.evaluate(PLACES, LIVE), strict=True):
        assert mine == pytest.approx(other, abs=1.0)
    page.close()


def test_a_link_whose_question_cannot_be_has_no_answer_in_its_document(document_of):
    for link in (
        "device=%3Cscript%3Ealert(1)%3C/script%3E",
        "page=serving",
        "page=pareto&model=llama-3.1-405b&device=l4",
    ):
        assert document_of(link).locator(FIRST).count() == 0
