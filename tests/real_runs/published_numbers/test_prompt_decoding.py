"""How long is a pass by the size of the trees that ride on it: published milliseconds of parallel
prompt decoding.

The source's host takes a quarter longer than the one that was measured for Transformers (50 and 39
tokens/s of plain decoding, 61 and 47 predicted): passes are compared with plain ones of the same
model.
"""

import re

import pytest

from costmodel.answers.estimate import step_cost
from costmodel.laws.acceptance import geometric
from real_runs.published_numbers.question import question_of
from real_runs.published_numbers.reading.table import read_rows


@pytest.fixture(scope="module")
def passes(published_rows):
    """(query tokens, published and predicted seconds over those of a plain pass) by system and
    target."""
    found = {}
    for row in read_rows(published_rows.file):
        stated = re.search(r"L_fp=([\d.]+) ms vs vanilla ([\d.]+) ms", row.draft_cost)
        if "2405.18628" not in row.source or stated is None:
            continue
        asked = question_of(row)
        at = {"batch": 1.0, "context": float(asked.context)}
        ours = step_cost(asked.setting, asked.acceptance, **at).total_s
        plain = step_cost(asked.plain, geometric(0.0, 0), **at).total_s
        rows = 1 + asked.acceptance.draft_tokens + asked.setting.drafter.method.shape.riding
        found[row.system.split()[0], row.target] = (
            rows,
            float(stated[1]) / float(stated[2]),
            float(ours / plain),
        )
    return found


def test_passes_by_the_size_of_the_tree(passes):
    assert len(passes) == 3
    for (system, target), (rows, published, predicted) in passes.items():
        print(
            f"\n{system} on {target}, {rows} query tokens: {published:.3f} plain passes,"
            f" {predicted:.3f} predicted"
        )
        assert predicted == pytest.approx(published, rel=0.08)
        assert predicted > 1.0
    assert passes["PPD", "MobileLLaMA-1.4B"][0] == 289 and passes["PPD", "Vicuna-7B"][0] == 109
    prompted, heads = (passes[system, "Vicuna-7B"] for system in ("PPD", "Medusa"))
    assert prompted[1] < heads[1] and prompted[2] < heads[2]  # although it has more query tokens
