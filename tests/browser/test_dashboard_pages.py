"""Every page of the dashboard, light and dark, on a desktop and on a phone, each opened once and
looked at in turn.

Whole, within three screens, without grave findings of axe-core; on a phone nothing sideways, the
question at hand and the answer near the top.
"""

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)

from tests.browser.screenshots import PAGES  # noqa: E402
from tests.browser.steps import settled, simulated  # noqa: E402

DESKTOP, PHONE = (1280, 800), (390, 844)
MOST_SCREENS = {
    "hardware": 3.5
}  # whose charts and tables answer for every device; of the others three
HEIGHT = "document.querySelector('[data-testid=stMain]').scrollHeight"
SPILLING = """() => [...document.querySelectorAll(".rooftree-card")].filter(card =>
    card.querySelector(".main-svg").getBoundingClientRect().width > card.getBoundingClientRect().width + 1).length"""
# a scheme that has just been chosen comes to what is drawn one after the other
SHADED = """([part, ink, dark]) => {
    const shades = [...document.querySelectorAll(part)].map(each =>
        getComputedStyle(each)[ink].match(/\\d+/g).slice(0, 3).reduce((sum, level) => sum + Number(level), 0));
    return shades.length > 0 && shades.every(shade => (shade > 3 * 128) === dark);
}"""
DARK = ("run", "hardware", "diffusion")  # what colours the others have is theirs as well
GRAVE = ("serious", "critical")
# (rule, part of the element's path): why it cannot be changed here
EXCUSED: dict[tuple[str, str], str] = {}


@pytest.fixture
def page_of(asked):
    """Ask a page's own question at a size and in a colour scheme; a simulation is run."""

    def open_page(name, size, scheme="light"):
        serves = name == "serving"
        page = asked(
            f"page={name}{'&count=10&prompt_tokens=64&output_tokens=16' * serves}", size, scheme
        )
        if serves and page.locator("[data-part=charts]").count() == 0:
            simulated(page)
        return page

    return open_page


def findings(page):
    """Serious and critical findings that are not excused, in words."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}:"
        f" {node['html'][:160]}"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
        if not any(
            rule["id"] == excused and part in " ".join(map(str, node["target"]))
            for excused, part in EXCUSED
        )
    ]


@pytest.mark.parametrize(
    ("name", "scheme"),
    [(name, "light") for name in PAGES]
    + [
        pytest.param(name, "dark", marks=() if name in DARK else pytest.mark.slow) for name in PAGES
    ],
)
def test_every_page_is_drawn_in_both_schemes_without_grave_findings(page_of, name, scheme):
    page = page_of(name, DESKTOP, scheme)
    assert page.get_by_test_id("stException").count() == 0
    assert page.get_by_test_id("stAlertContentError").count() == 0
    assert page.locator(".st-key-question").is_visible()
    assert not page.locator(".st-key-question-summary").is_visible()
    charts = page.locator(".rooftree-card")
    assert charts.count() >= (1 if name == "pareto" else 2)
    assert page.locator(".rooftree-card .main-svg").count() >= charts.count()
    assert page.evaluate(SPILLING) == 0
    for part, ink in (("[data-testid=stApp]", "color"), (".rooftree-card .xtick text", "fill")):
        page.wait_for_function(SHADED, arg=[part, ink, scheme == "dark"])
    assert findings(page) == []
    if name != "serving":
        assert page.evaluate(HEIGHT) <= MOST_SCREENS.get(name, 3.0) * DESKTOP[1]


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_has_the_question_in_a_line_and_the_answer_on_the_first_screen(page_of, name):
    page = page_of(name, PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    assert page.get_by_role("heading", level=1).is_visible()
    wide = """each => [...each.querySelectorAll('section, h2, h3, p, dl')].filter(
        part => part.getBoundingClientRect().right > innerWidth + 1).length"""
    main = page.get_by_test_id("stMain")
    assert main.evaluate(wide) == 0
    if name != "serving":  # which answers when it is told to
        assert page.locator("[data-part=words] h2").bounding_box()["y"] < PHONE[1]
    bar, line = page.locator(".st-key-question"), page.locator(".st-key-question-summary button")
    assert (
        not bar.is_visible() and line.is_visible() and "llama-3.1-8b · batch" in line.inner_text()
    )
    main.evaluate(f"each => each.scrollTo(0, {HEIGHT})")
    assert 0 <= line.bounding_box()["y"] < PHONE[1] / 4, "the line stays in sight"
    line.click()
    bar.wait_for()
    settled(page)
    page.locator(".st-key-group-Workload button").first.click()
    page.locator(".st-key-asked-batch input[type=range]").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    page.keyboard.press("Escape")
    line.click()
    bar.wait_for(state="hidden")
    settled(page)


def test_a_grave_finding_is_seen(browser):
    page = browser.new_page()
    page.set_content("<html lang=en><body><main><img src='data:,'></main></body></html>")
    said = findings(page)
    page.close()
    assert any(line.startswith("image-alt") for line in said)
