"""What axe-core finds on every page of the dashboard, light and dark: nothing serious or critical."""

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

from tests.browser.screenshots import CHROMIUM, FLAGS, PAGES, PATIENCE_S, served, settled, simulated  # noqa: E402

GRAVE = ("serious", "critical")
# (rule, part of the element's path): why it cannot be changed here
EXCUSED: dict[tuple[str, str], str] = {}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("dashboard") / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def findings(page):
    """Serious and critical findings that are not excused, in words."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}: {node['html'][:160]}"
        for rule in found if rule["impact"] in GRAVE
        for node in rule["nodes"]
        if not any(rule["id"] == excused and part in " ".join(map(str, node["target"])) for excused, part in EXCUSED)
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_grave_findings(chromium, server, name, scheme):
    page = chromium.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    page.set_default_timeout(1000 * PATIENCE_S)
    page.goto(f"{server}/?page={name}" + ("&count=10&prompt_tokens=64&output_tokens=16" if name == "serving" else ""))
    settled(page)
    if name == "serving":
        simulated(page)
    said = findings(page)
    page.close()
    assert said == []


def test_a_grave_finding_is_seen(chromium, server):
    page = chromium.new_page()
    page.set_content("<html lang=en><body><main><img src='data:,'></main></body></html>")
    said = findings(page)
    page.close()
    assert any(line.startswith("image-alt") for line in said)
