"""A shape is written as it is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.draft_shape import (
    OFF,
    OWN,
    DraftShape,
    chain,
    dynamic,
    read_shape,
    read_shapes,
    read_stop,
    stop_text,
)
from costmodel.method import Shape, Stop
from hardware_profiles.errors import InputError

counts = st.integers(1, 4095)
ratios = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
numbers = {
    "at": ratios,
    "least_tokens": st.integers(0, 4),
    "most_tokens": st.integers(0, 9),
}
stops = st.one_of(
    st.none(),
    st.builds(Stop, rule=st.just("probability"), unlikely_tokens=st.integers(0, 1), **numbers),
    st.builds(Stop, rule=st.sampled_from(["product", "gain", "ema", "goodput", "cost"]), **numbers),
)
limits = st.builds(
    Shape,
    kind=st.just("dynamic_tree"),
    nodes=counts,
    depth=st.integers(0, 64),
    width=st.integers(0, 64),
    beam=st.integers(0, 64),
    least_probability=ratios,
)
shapes = st.one_of(
    st.sampled_from([OFF, OWN]),
    st.builds(chain, counts, stops),
    st.builds(
        DraftShape, kind=st.just("chains"), nodes=st.integers(1, 60), paths=st.integers(1, 60)
    ),
    st.builds(
        DraftShape,
        kind=st.just("tree"),
        nodes=counts,
        built_from=st.sampled_from(["trace", "vector"]),
    ),
    st.builds(dynamic, limits, stops),
    st.builds(DraftShape, kind=st.just("prompted"), nodes=counts),
)


@given(shapes)
def test_what_is_written_is_read_as_it_was(shape):
    assert read_shape(str(shape)) == shape


@given(st.lists(shapes, min_size=1, max_size=4))
def test_several_stand_side_by_side(listed):
    assert read_shapes(",".join(map(str, listed))) == listed


def test_shapes_have_the_spelling_of_tables():
    written = (
        "off,chain:5,chains:3x4,tree:16,tree:16:vector,dynamic:60x6:width=10:least=0.02,"
        "dynamic:255x15:cost=0.004:free=32,own"
    )
    assert ",".join(map(str, read_shapes(written))) == written
    assert read_shape("chain:0") == OFF
    assert str(read_shape("tree:a/b.json").file) == "a/b.json"
    assert str(read_shape("chain:8+probability:0.6")) == "chain:8+probability:0.6"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "K=5",
        "off:1",
        "own:2",
        "chain",
        "chain:",
        "chain:-1",
        "chain:4096",
        "chain:x",
        "chain:²",
        "chains:5",
        "chains:0x5",
        "chains:100x100",
        "tree",
        "tree:",
        "tree:0",
        "dynamic",
        "dynamic:0",
        "dynamic:x6",
        "dynamic:5x0",
        "dynamic:5:tall=3",
        "dynamic:5:width=1.5",
        "dynamic:5:least=2",
        "dynamic:5:cost=2",
        "dynamic:5:free=1.5",
        "prompted:0",
        "off+ema",
        "prompted:8+ema",
        "chain:5+",
        "chain:5+never:1",
    ],
)
def test_other_texts_are_refused_by_the_name_of_the_option(text):
    with pytest.raises(InputError, match="--shape"):
        read_shape(text, key="--shape")


@given(stops.filter(bool))
def test_rules_that_end_drafts_are_written_as_they_are_read(stop):
    assert read_stop(stop_text(stop)) == stop


def test_rules_take_commas_as_well():
    written = "product:0.5,least=2,most=8"
    assert read_stop(written) == Stop(rule="product", at=0.5, least_tokens=2, most_tokens=8)
    assert read_stop("goodput").least_tokens == 0


@pytest.mark.parametrize(
    "text",
    ["length", "never:0.1", "probability:x", "product:0.5,last=1", "probability:nan", "exit"],
)
def test_rules_that_name_nothing_are_refused(text):
    with pytest.raises(InputError, match="--stop"):
        read_stop(text, key="--stop")
