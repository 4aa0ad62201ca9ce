"""What a person does on a page of the dashboard, and how a test waits until the page has
followed."""

from contextlib import contextmanager, nullcontext
from urllib.parse import parse_qs

from app.dashboard.state import PAGES, address, from_query
from app.dashboard.wording import FOLD, TITLES

# in a page of a file: figures that are not hidden are drawn
DRAWN = """() => [...document.querySelectorAll('.plot')]
    .filter(place => !place.closest('[hidden]')).every(place => place.querySelector('svg.main-svg'))"""
POLL_MS = 50  # a look at every frame would have the browser draw frames for nothing else
SETTLED = """() => {
    const idle = document.querySelector('[data-test-script-state="notRunning"]');
    const words = pairs => JSON.stringify([...pairs].sort());
    const asked = words(new URLSearchParams(location.search));
    // a chart whose place has become narrower is drawn anew a tenth of a second later
    const width = each => each.getBoundingClientRect().width;
    const fits = plot => Math.abs(width(plot) - width(plot.querySelector('.main-svg'))) < 2;
    const charts = [...document.querySelectorAll('.rooftree-card [role=img]:has(.main-svg)')];
    return idle && [...document.querySelectorAll('[data-part]')].every(({dataset: {shown, settled}}) =>
        shown && shown === settled && words(Object.entries(JSON.parse(shown))) === asked)
        && charts.every(plot => !width(plot) || fits(plot));
}"""
ASK = (
    "address => { history.pushState(null, '', address); dispatchEvent(new"
    " PopStateEvent('popstate')); }"
)
TAKEN = "path => location.pathname === path && !new URLSearchParams(location.search).has('page')"
CHIPS = "left => document.querySelectorAll('[data-testid=stFileChip]').length === left"
LEFT = "before => location.href !== before"
NO_FILE = "!new URLSearchParams(location.search).getAll('known_by').includes('upload')"
UNSIMULATED = "Press the button to simulate"


def settled(page):
    """Wait until every chart says what the address asks, or the page says why there is none.

    A page that has not heard yet of what was just done is settled too: first wait for what only the
    next answer shows, as `followed` does for an address.
    """
    page.locator("[data-part=charts][data-settled], [data-testid=stAlert]").first.wait_for(
        state="attached"
    )
    page.wait_for_function(SETTLED, polling=POLL_MS)


@contextmanager
def followed(page):
    """Wait, after what is done inside, until the page has another address and the answer to it."""
    before = page.evaluate("location.href")
    yield
    page.wait_for_function(LEFT, arg=before, polling=POLL_MS)
    settled(page)


def ask(page, link):
    """Ask what a link asks in the session of the page, as Back and Forward do."""
    state, wrong = from_query({name: values[0] for name, values in parse_qs(link).items()})
    page.keyboard.press("Escape")
    if wrong or (where(page), query(page)) != (state.page, address(state)):
        # an address that asks nothing is a page that was chosen, which keeps the question
        page.evaluate(ASK, f"/?{link if 'model=' in link else f'{link}&model={state.model}'}")
        page.wait_for_function(
            TAKEN, arg="/" if state.page == PAGES[0] else f"/{state.page}", polling=POLL_MS
        )
    is_at(page, TITLES[state.page])
    assert query(page) == address(state), "the session answers another question"


def is_at(page, title):
    """Wait for the page of a title and its answer."""
    page.get_by_role("heading", name=title, level=1, exact=True).wait_for()
    settled(page)


def turned_to(page, title):
    """Choose a page in the sidebar."""
    page.get_by_test_id("stSidebarNavLink").get_by_text(title, exact=True).click()
    is_at(page, title)


def reached(page, name):
    """The widget of a field, once the button that hides it has been pressed."""
    from app.dashboard.controls.bar import BEHIND, QUESTION

    widget = page.locator(f".st-key-asked-{name}, [class*='st-key-asked-{name}--']")
    if widget.count() == 0:
        groups = {
            **QUESTION,
            **{title: names for more in BEHIND.values() for title, names in more.items()},
        }
        buttons = [
            page.locator(f".st-key-group-{title.replace(' ', '-')} button").first
            for title, names in groups.items()
            if name in names
        ]
        next(button for button in buttons if button.count()).click()
        widget.first.wait_for()
    return widget


def dropped(page, *paths, refused=False):
    """Drop files at the place of every page for a server's counters, its log or a recording; wait
    for the answer that rests on them, or for the words that refuse them."""
    field = page.locator(".st-key-file-of-server input[type=file]")
    if field.count() == 0:
        page.locator(".st-key-group-Your-server button").first.click()
    names = [str(path) for path in paths]
    if refused:
        assert page.get_by_test_id("stAlert").count() == 0, "what was there before tells nothing"
        field.set_input_files(names)
        page.get_by_test_id("stAlert").wait_for()
        settled(page)
        return
    with followed(page):
        field.set_input_files(names)


def taken_away(page):
    """Take every file away again, so that the session knows none and the page rests on none."""
    chips = page.get_by_test_id("stFileChip")
    if chips.count() == 0:
        page.locator(".st-key-group-Your-server button").first.click()
        chips.first.wait_for()
    for left in reversed(range(chips.count())):
        chips.first.get_by_role("button").click()
        page.wait_for_function(CHIPS, arg=left, polling=POLL_MS)
    page.get_by_test_id("stAlert").first.wait_for(state="detached")  # of a file that was refused
    page.wait_for_function(NO_FILE, polling=POLL_MS)
    settled(page)


def slid(page, name, key="ArrowRight"):
    """Move a slider by a key and wait until every chart follows."""
    slider = reached(page, name).locator("input[type=range]").first
    with followed(page):
        slider.press(key)


def slid_to(page, name, value):
    """Move a slider to a value by its keys."""
    for _ in range(40):
        now = (
            reached(page, name)
            .locator("input[type=range]")
            .first.get_attribute("aria-valuetext")
            .replace(",", "")
        )
        if now == str(value):
            return
        slid(page, name, "ArrowRight" if float(now) < value else "ArrowLeft")
    raise AssertionError(f"{name} never became {value}")


def typed(page, name, text, *, refused=False):
    """Type into a field; wait until the address and every chart follow, which they do not where it
    is refused."""
    field = reached(page, name).locator("input").first
    with nullcontext() if refused else followed(page):
        field.fill(text)
        field.press("Enter")


def unfolded(page):
    """Open the fold that holds what is behind an answer, and wait for it."""
    fold = page.get_by_test_id("stExpander").filter(has_text=FOLD).locator("details")
    if fold.get_attribute("open") is None:
        fold.locator("summary").click()
        fold.and_(page.locator("[open]")).wait_for()
        fold.locator("[data-part=notes][data-settled]").wait_for(state="attached")
        settled(page)
    return fold


def simulated(page):
    """Run the simulation that the serving page offers, and wait for its charts."""
    page.get_by_text(UNSIMULATED).wait_for()
    page.get_by_role("button", name="Run the simulation").click()
    page.get_by_text("Goodput against load").wait_for()
    settled(page)


def where(page):
    """The page's name in its address."""
    return page.evaluate("location.pathname.slice(1)") or "run"


def query(page):
    """What the address asks."""
    return {
        name: values[0]
        for name, values in parse_qs(page.evaluate("location.search.slice(1)")).items()
    }


def headline(page):
    """The answer in a sentence."""
    return page.locator("[data-part=words] h2").inner_text()


def commands(page):
    """The code that the page offers for copying."""
    return page.locator(".rooftree-code code:visible").all_inner_texts()
