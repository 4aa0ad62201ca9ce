"""Every page of the dashboard, light and dark: whole, within three screens, and without grave findings of axe-core."""

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

from tests.browser.screenshots import PAGES, simulated  # noqa: E402

DESKTOP = (1280, 800)
MOST_SCREENS = {"hardware": 3.5}  # whose charts and tables answer for every device; of the others three
HEIGHT = "document.querySelector('[data-testid=stMain]').scrollHeight"
DARK = ("run", "hardware", "diffusion")  # what colours the others have is theirs as well
GRAVE = ("serious", "critical")
# (rule, part of the element's path): why it cannot be changed here
EXCUSED: dict[tuple[str, str], str] = {}


def findings(page):
    """Serious and critical findings that are not excused, in words."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}: {node['html'][:160]}"
        for rule in found if rule["impact"] in GRAVE
        for node in rule["nodes"]
        if not any(rule["id"] == excused and part in " ".join(map(str, node["target"])) for excused, part in EXCUSED)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "scheme"),
    [(name, "light") for name in PAGES]
    + [pytest.param(name, "dark", marks=() if name in DARK else pytest.mark.slow) for name in PAGES],
)
def test_every_page_is_drawn_in_both_schemes_without_grave_findings(opened, name, scheme):
    serves = name == "serving"
    asked = f"page={name}" + ("&count=10&prompt_tokens=64&output_tokens=16" if serves else "")
    page = opened(asked, size=DESKTOP, scheme=scheme)
    if serves:
        simulated(page)
    assert page.get_by_test_id("stException").count() == 0
    assert page.get_by_test_id("stAlertContentError").count() == 0
    charts = page.locator(".rooftree-card")
    assert charts.count() >= (1 if name == "pareto" else 2)
    assert page.locator(".rooftree-card .main-svg").count() >= charts.count()
    ink = page.get_by_test_id("stApp").evaluate("app => getComputedStyle(app).color.match(/\\d+/g).map(Number)")
    assert (sum(ink) > 3 * 128) == (scheme == "dark")
    assert findings(page) == []
    if not serves:
        page.locator("[data-part=charts]").wait_for()
        assert page.evaluate(HEIGHT) <= MOST_SCREENS.get(name, 3.0) * DESKTOP[1]


def test_a_grave_finding_is_seen(browser):
    page = browser.new_page()
    page.set_content("<html lang=en><body><main><img src='data:,'></main></body></html>")
    said = findings(page)
    page.close()
    assert any(line.startswith("image-alt") for line in said)
