"""Which changes of the dashboard are timed? One by one key, of every slider, list and stepper of
every page.

Times are taken in the page itself, from the key's event to the frame after what it asked for is
drawn. Leaves out what is aimed at (`test_dashboard_speed`) and fields that are typed.
"""

from itertools import chain, product

from app.dashboard.controls.bar import BEHIND, INLINE, QUESTION
from app.dashboard.controls.widgets import MOST_OF_SLIDER
from app.dashboard.state import FIELDS, PAGES, control_of
from tests.browser.screenshots import PATIENCE_S
from tests.browser.steps import reached, settled
from traces.library import shipped_traces

REST_MS = 300  # of a hand between two changes
TYPED = ("rivals",)
# what makes a page ask for a field, and the links that begin anew where a field has fewer values
# than changes
ASKED_FOR = {
    "acceptance": "method=eagle-3&known_by=rate&acceptance=0.4",
    "trace": "known_by=recording",
    "draft": "method=speculative-decoding",
    "tree_nodes": "known_by=recording&tree_nodes=4",
}
QUESTIONS = [
    f"model={model}&batch={batch}"
    for batch, model in product(
        (1, 4, 16), ("llama-3.1-8b", "llama-3.2-1b", "qwen3-8b", "mistral-7b-v0.3")
    )
]
RECORDINGS = [f"trace={path.stem}" for path in shipped_traces()]
# the promise of the seconds from the next key's event until `shown` gives something else and that
# frame is on its way
WATCH = """shown => {
    const before = shown();
    let began;
    addEventListener("keydown", event => { began = event.timeStamp; }, {capture: true, once: true});
    window.told = new Promise(done => {
        const look = () => {
            const now = shown();
            if (began !== undefined && now !== undefined && now !== before) {
                setTimeout(() => done((performance.now() - began) / 1000));
            } else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
    });
}"""
# what the charts in sight say; where an answer has none, what the address asks for
ANSWERED = "() => document.querySelector('[data-part=charts]')?.dataset.shown ?? location.search"


def controls():
    """Every page with every field that it asks for by a slider, a list or a stepper."""
    asked = {}
    for page in PAGES:
        groups = [*QUESTION.values(), *BEHIND.get(page, {}).values(), INLINE.get(page, ())]
        asked |= dict.fromkeys((page, name) for name in chain(*groups) if name not in TYPED)
    return list(asked)


def links(page, name):
    """Queries to begin with, each another question; a slider starts at its low end."""
    first = ASKED_FOR.get(name, "")
    control = control_of(name)
    if control.ticks:
        first = f"{name}={control.ticks[0]}"
    elif FIELDS[name].type is int and control.most <= MOST_OF_SLIDER:
        first = "&".join(filter(None, (first, f"{name}={control.least}")))
    more = RECORDINGS if page == "trace" and name != "trace" else QUESTIONS
    return [f"page={page}&{first}&{without(each, name)}" for each in more]


def without(query, name):
    """A query less a field."""
    return "&".join(part for part in query.split("&") if not part.startswith(f"{name}="))


def opened(browser, address, done):
    """A page in a session of its own, once it is done."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(1000 * PATIENCE_S)
    page.goto(address)
    done(page)
    return page


def stepped(page, widget, shown):
    """Seconds of a widget's next step; None where it stands at its end."""
    slider, number = widget.locator("input[type=range]"), widget.locator("input[type=number]")
    if slider.count():
        if slider.first.evaluate("each => Number(each.value) >= Number(each.max)"):
            return None
        slider.first.focus()
        key = "ArrowRight"
    elif number.count():
        number.first.focus()
        key = "ArrowUp"
    else:
        if not next_option(page, widget.get_by_role("combobox").first):
            return None
        key = "Enter"
    page.evaluate(f"() => ({WATCH})({shown})")
    page.keyboard.press(key)
    return page.evaluate("window.told")


def next_option(page, box):
    """Open a list and go to the option after the chosen one; whether there is one."""
    place = "box => Number(box.getAttribute('aria-activedescendant').split('-').at(-1))"
    box.click()
    page.get_by_role("option").first.wait_for()
    chosen = box.evaluate(place)
    page.keyboard.press("ArrowDown")
    return box.evaluate(place) > chosen


def alternating(browser, server, smallest, page_name, name, changes):
    """Seconds of a control's changes and of the smallest page's, taken in turn: `changes` of each
    at most.

    Every change of ours asks what the server was never asked; it has settled before the other page
    is moved.
    """
    ours, theirs = [], []
    for link in links(page_name, name):
        page = opened(browser, f"{server}/?{link}", settled)
        widget = reached(page, name)
        while len(ours) < changes:
            settled(page)
            page.wait_for_timeout(REST_MS)
            reference = smallest()
            page.wait_for_timeout(REST_MS)
            taken = stepped(page, widget, ANSWERED)
            if taken is None:
                break
            ours.append(taken)
            theirs.append(reference)
        page.close()
        if len(ours) == changes:
            break
    return ours, theirs
