"""Every page on a phone: nothing sideways, the question at hand, the answer near the top; a desktop's whole bar."""

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from tests.browser.screenshots import PAGES, settled

PHONE = (390, 844)
HEIGHT = "document.querySelector('[data-testid=stMain]').scrollHeight"


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_has_the_question_in_a_line_and_the_answer_on_the_first_screen(opened, name):
    page = opened(f"page={name}", size=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    assert page.get_by_role("heading", level=1).is_visible()
    wide = """each => [...each.querySelectorAll('section, h2, h3, p, dl')].filter(
        part => part.getBoundingClientRect().right > innerWidth + 1).length"""
    main = page.get_by_test_id("stMain")
    assert main.evaluate(wide) == 0
    if name != "serving":  # which answers when it is told to
        assert page.locator("[data-part=words] h2").bounding_box()["y"] < PHONE[1]
    bar, line = page.locator(".st-key-question"), page.locator(".st-key-question-summary button")
    assert not bar.is_visible() and line.is_visible() and "llama-3.1-8b · batch" in line.inner_text()
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


def test_a_desktop_shows_the_whole_bar(opened):
    page = opened("page=map")
    assert page.locator(".st-key-question").is_visible()
    assert not page.locator(".st-key-question-summary").is_visible()
