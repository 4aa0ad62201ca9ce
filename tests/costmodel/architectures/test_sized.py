"""A model of which only the number of parameters is known has about as many, in shapes that divide
over devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model, model_names
from costmodel.architectures.sized import LEAST_PARAMETERS, MOST_PARAMETERS, sized_reading
from hardware_profiles.errors import InputError, UnknownNameError


@given(st.integers(int(LEAST_PARAMETERS / 1e6), int(MOST_PARAMETERS / 1e6)))
def test_it_has_as_many_parameters_and_its_heads_divide(millions):
    model = load_model(f"dense-{millions}m")
    assert model.parameters == pytest.approx(1e6 * millions, rel=0.03)
    attention = model.blocks[0][0].attention
    assert attention.heads % attention.kv_heads == 0
    assert millions < 2000 or attention.kv_heads == 8


@pytest.mark.parametrize(
    ("name", "like"), [("dense-8b", "llama-3.1-8b"), ("dense-70b", "llama-3.1-70b")]
)
def test_it_is_near_models_of_its_size(name, like):
    sized, real = load_model(name), load_model(like)
    assert sized.layers == pytest.approx(real.layers, rel=0.1)
    assert sized.hidden == pytest.approx(real.hidden, rel=0.1)


def test_names_of_models_stay_theirs():
    assert all(sized_reading(name) is None for name in model_names())
    assert load_model("DENSE-13B").name == "dense-13b"


@pytest.mark.parametrize("name", ["dense-0.01b", "dense-9000b"])
def test_sizes_that_no_such_model_has_are_refused(name):
    with pytest.raises(InputError, match="100 million to 2000 billion"):
        load_model(name)


@pytest.mark.parametrize("name", ["dense-", "dense-13", "dense-13t", "dense--13b", "dense-1e9b"])
def test_what_is_no_number_is_no_model(name):
    with pytest.raises(UnknownNameError):
        load_model(name)
