"""Values of fields are read once, alike at every door, and refused as each door spells the field."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooftree.questions
from app.cli import door
from app.cli.main import VERBS, main
from app.questions import values
from app.questions.field import Field, Group, NamedField, fields_of
from hardware_profiles.errors import InputError
from rooftree.questions import ask_verb
from tests.every import every

TEXTS = {
    *(
        "against",
        "as_family",
        "engines",
        "model",
        "subject",
        "name",
        "new",
        "like",
        "url",
        "server",
        "host",
        "ray",
    ),
    *("device", "here", "on", "profile", "base", "engine", "engine_version", "variant", "key_env"),
    *("dtype", "kv_dtype", "draft_dtype", "draft", "draft_name", "form", "operation", "group"),
    *("data_set", "kind", "launch", "leave_out", "price", "layers", "scenario", "trace", "drafter"),
    *("shape", "stop", "schedule", "transform", "verifier", "policies", "layouts", "mask"),
    *("prompt_tokens", "output_tokens", "split_over", "cache"),
    *("fidelity", "maximise", "method"),
}
"""Names, addresses, and forms that a module of their own reads."""
READ = {
    (words, f.keyword): f
    for words, verb in VERBS.items()
    for f in fields_of(verb)
    if f.row.reads is not None
}
EXAMPLES = {
    values.WholeNumbers: ("64", [64], 64),
    values.PositiveNumbers: ("0.5,2", [2, 0.5], (0.5, 2.0)),
    values.Rates: ("0.75,0.5", [0.75, 0.5], (0.75, 0.5)),
    values.RatesOrFile: ("0.75", 0.75, [0.75]),
    values.Share: ("0.25", 0.25, "0.25"),
    values.LatencyLimit: ("20", 20, 20.0),
    values.Time: ("9m", "540s", 540),
    values.Bytes: ("350MB", 3.5e8, "350000000"),
    values.MeanTokens: ("512", 512, 512.0),
    values.MethodName: ("n-gram", "n-gram", "n-gram"),
    values.Span: ("12,20", [12, 20], (12, 20)),
    values.OneOf: ("full", "full", "full"),
}
"""A text of the command line, and values of Python that mean the same."""

rates = st.lists(st.floats(0, 1), min_size=1)
times = st.tuples(st.integers(1, 10**9 - 1), st.sampled_from(["", "s", "m", "h"]))
fifteen_digits = st.tuples(st.integers(1, 10**15 - 1), st.integers(-9, 3))
VALUES = {
    values.WholeNumbers(least=0): st.lists(st.integers(0, values.MOST), min_size=1),
    values.PositiveNumbers(): st.lists(st.floats(1e-300, 1e300), min_size=1),
    values.Rates(): rates,
    values.RatesOrFile(): rates,
    values.Share(): st.floats(0, 1),
    values.LatencyLimit(): fifteen_digits.map(lambda parts: float("{}e{}".format(*parts)))
    | st.tuples(st.floats(1, 99.9), st.integers(1, 10**6)).map(lambda of: "p{}:{}".format(*of)),
    values.Time(): times.map(lambda parts: "{}{}".format(*parts)),
    values.Bytes(): st.floats(1e-3, values.MOST_BYTES),
    values.MeanTokens(): st.floats(1.0, 1e9),
    values.Span(): st.lists(st.integers(0, 10**9 - 1), min_size=2, max_size=2, unique=True).map(
        sorted
    ),
    values.OneOf(("named", "full")): st.sampled_from(["named", "full"]),
}


@pytest.mark.parametrize("words", VERBS)
def test_a_text_that_is_a_value_has_a_reader(words):
    """A field that stays a text is a name or has a form of its own, and stands in the list above."""
    texts = {f.name for f in fields_of(VERBS[words]) if f.row.reads is None and f.type is str}
    assert texts <= TEXTS, texts - TEXTS


def test_no_text_is_listed_that_no_verb_takes():
    taken = {f.name for verb in VERBS.values() for f in fields_of(verb) if f.row.reads is None}
    assert taken >= TEXTS


def test_every_reader_is_of_some_field():
    assert {type(f.row.reads) for f in READ.values()} == set(EXAMPLES)


@pytest.mark.parametrize("reader", VALUES, ids=lambda reader: type(reader).__name__)
@given(data=st.data())
def test_a_value_means_the_same_as_a_text_and_as_answers_repeat_it(reader, data):
    row = Field("Of this test.", Group.RUN, reads=reader)
    field = NamedField(name="asked", hint=str, default=None, row=row)
    value = data.draw(VALUES[reader])
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    read = field.read(text, key="asked")
    assert field.read(value, key="asked") == read
    assert field.read(field.written(read), key="asked") == read


@given(st.text(max_size=20))
def test_any_other_text_is_refused(text):
    for reader in (*VALUES, values.MethodName()):
        try:
            reader.read(text)
        except InputError as error:
            assert error.key is None and error.message


@pytest.mark.parametrize(
    ("text", "count"),
    [("350MB", 3.5e8), ("16GiB", 2**34), ("2.5 GB", 2.5e9), ("12kB", 12e3), ("1.5", 1.5)],
)
def test_bytes_have_units(text, count):
    assert values.Bytes().read(text) == count


@pytest.mark.parametrize("text", ["350mb", "350M", "MB", "2.5GB/s", "0B", "2PB", "nanGB"])
def test_other_units_are_refused(text):
    with pytest.raises(InputError, match="must be a number of bytes above 0"):
        values.Bytes().read(text)


@pytest.fixture
def asked(monkeypatch):
    """What doors ask in the place of an answer: values by the name of a field."""
    questions = []
    for module in (door, rooftree.questions):
        monkeypatch.setattr(
            module, "ask", lambda verb, stated, *, silent=False: questions.append(stated)
        )
    return questions


def needed_words(words):
    """A verb with something for every field that must be stated."""
    needed = [f for f in fields_of(VERBS[words]) if f.default is inspect.Parameter.empty]
    stated = [["x"] if f.row.argument else [f.option, "x"] for f in needed]
    return [*words.split(), *(word for pair in stated for word in pair)]


@every("words, keyword", READ)
def test_doors_read_the_same_value(asked, words, keyword):
    asked.clear()
    field = READ[words, keyword]
    text, *others = EXAMPLES[type(field.row.reads)]
    assert main([*needed_words(words), field.option, text]) == 0
    for other in others:
        ask_verb(words, (), {keyword: other})
    first, *rest = [question[field.name] for question in asked]
    assert rest == [first] * len(others) and not isinstance(first, list)


@every("words, keyword", READ)
def test_a_refusal_spells_the_field_as_its_door_does(asked, capsys, words, keyword):
    field = READ[words, keyword]
    wrong = "1.5" if isinstance(field.row.reads, values.RatesOrFile) else "-1"
    assert main([*needed_words(words), field.option, wrong]) == 2
    assert capsys.readouterr().err.startswith(f"rooftree: {field.option}: ")
    with pytest.raises(InputError, match=f"^{keyword}: "):
        ask_verb(words, (), {keyword: wrong})
    assert not asked
