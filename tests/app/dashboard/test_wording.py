"""Errors on a page: labels in place of options and keys, and nothing of the server's folders."""

import pytest

from app.dashboard.wording import error_words
from hardware_profiles.errors import InfeasibleError, InputError, UnknownNameError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            InfeasibleError("batch 512, --tp 2: 90 GiB"),
            "batch 512, devices that share the model 2: 90 GiB",
        ),
        (
            InputError("is no trace", file="/srv/a b/x/t.parquet", key="--trace"),
            "t.parquet: Recording: is no trace",
        ),
        (InputError("see /usr/lib/python3/x.toml"), "see x.toml"),
        (
            UnknownNameError("device", "h10", ["h100-sxm"], key="other_device"),
            "Second device: unknown device 'h10'; nearest: h100-sxm",
        ),
        (
            InputError("must be 1 to 2", key="threshold_of_x", value=3),
            "threshold of x: must be 1 to 2, got 3",
        ),
        (InputError("1/2 of it, a--b and 3 --- 4"), "1/2 of it, a--b and 3 --- 4"),
    ],
)
def test_errors_are_said_in_words_of_the_page(error, words):
    assert error_words(error) == words
