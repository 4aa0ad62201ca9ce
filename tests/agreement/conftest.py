"""Questions of a relation: a few in the suite, many in `make slow`."""

import zlib

import pytest

from tests.agreement.questions import draw

MANY = 12
"""Times as many questions in `make slow` as in the suite."""


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "questions(count, **fields): of a relation between doors, in the suite"
    )


def pytest_generate_tests(metafunc):
    marker = metafunc.definition.get_closest_marker("questions")
    if marker is not None:
        cases = [pytest.param(1, id="some"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]
        metafunc.parametrize("times", cases)


@pytest.fixture
def questions(request, times):
    """As many random questions as the test's mark says, drawn with a seed of the test's own."""
    marker = request.node.get_closest_marker("questions")
    seed = zlib.crc32(request.node.originalname.encode()) + times
    return list(draw(seed, marker.args[0] * times, **marker.kwargs))
