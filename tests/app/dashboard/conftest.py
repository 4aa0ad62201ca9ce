"""No question is answered ahead of its time, unless a test is about that (`test_prefetch`)."""

import pytest

from app.dashboard import prefetch


@pytest.fixture(autouse=True)
def _nothing_ahead(request, monkeypatch):
    if request.module.__name__.rpartition(".")[2] != "test_prefetch":
        monkeypatch.setattr(prefetch, "start", lambda questions, answer: None)
