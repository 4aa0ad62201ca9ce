"""A number for a slide: how many tokens per step does EAGLE-3 emit on Llama-3.1-8B, and who says
so?"""

import re


def test_number_and_source_stand_on_one_screen(user):
    screen = user("rooftree acceptance show eagle-3 llama-3.1-8b")
    entry = user("rooftree acceptance show eagle-3 llama-3.1-8b --json").answer["entry"]
    assert len(screen.lines) <= 40 and max(map(len, screen.lines)) <= 100
    (shown,) = [line.split() for line in screen.lines if line.startswith("tokens per step")]
    emitted = [float(number) for number in shown[3:]]
    assert len(emitted) >= 3 and emitted == sorted(emitted) and 1.0 < emitted[0] <= 2.0
    for about in ("source", "place", "data_set", "licence"):
        assert entry[about] and str(entry[about]).split()[0] in screen.out, about
    assert re.search(r"\w+\.\w+/\w+", entry["source"]), "a source is an address that one can open"


def test_the_quoted_number_answers_a_question(user):
    """What was quoted goes into a prediction, which emits just as many tokens per step."""
    screen = user("rooftree acceptance show eagle-3 llama-3.1-8b")
    (shown,) = [line.split() for line in screen.lines if line.startswith("tokens per step")]
    quoted = shown[5]
    asked = (
        f"rooftree predict --model llama-3.1-8b --method eagle-3 --tokens-per-step {quoted}"
        " --draft-tokens 3 --json"
    )
    rows = user(asked).answer["predictions"]
    assert {row["tokens_per_step"] for row in rows if row["draft_tokens"] == 3} == {float(quoted)}
    assert rows[0]["speedup"] > 1.5


def test_what_nobody_published_is_refused(user):
    refused = user(
        "rooftree acceptance show eagle-3 llama-3.1-8b --data-set nobody-measured-this", code=2
    )
    assert refused.out == "" and "nothing was published" in refused.err
