"""Rows as tables have them."""

from dataclasses import replace

import pytest

from real_runs.published_numbers.reading.sources import facts_of
from real_runs.published_numbers.reading.table import PublishedRow

ROW = PublishedRow(
    line=2,
    kind="drafting",
    system="EAGLE-2",
    source="arXiv:2503.01840 Table 1",
    group="full",
    target="Vicuna-13B",
    draft="EAGLE head",
    hardware="A100-80GB",
    devices="1",
    precision="fp16",
    batch="1",
    prompt="512",
    shape="dynamic tree 60 nodes depth 7 top-k 10",
    acceptance="tau=4.83",
    speedup=4.26,
)


@pytest.fixture
def row():
    def make(**changes):
        changed = replace(ROW, **changes)
        return replace(changed, facts=facts_of(changed.source))

    return make
