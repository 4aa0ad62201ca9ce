"""Widths of serving intervals: they hold what they were made of, and most of what they were not."""

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from simulator.closed_loop.left_out import RATIOS, class_of, left_out_ratio
from tests.golden import left_out as made


@pytest.fixture
def drawn():
    """Residuals of five models whose widths differ by class and engine alone."""
    generator = np.random.default_rng(1)
    found = []
    for kind, engine, sigma in (
        ("dense", "vllm", 0.1),
        ("dense", "sglang", 0.3),
        ("MoE", "vllm", 0.6),
    ):
        for model in "abcde":
            found += [
                made.Residual(
                    quantity="tpot",
                    kind=kind,
                    engine=engine,
                    model=model,
                    kernels=0.05,
                    log=float(log),
                )
                for log in sigma * generator.standard_normal(80)
            ]
    return found


def test_a_ratio_holds_eighty_percent_of_what_made_it_and_of_what_did_not(drawn):
    for quantity, value, size, inside, apart in made.coverage(drawn):
        assert quantity == "tpot" and size >= 100
        assert 0.77 <= inside <= 0.87, value
        assert 0.74 <= apart <= 0.87, value
    table = made.ratios(drawn)
    assert (
        table["tpot", "dense", "vllm"]
        < table["tpot", "dense", "sglang"]
        < table["tpot", "MoE", "vllm"]
    )
    assert made.ratio_of(table, ("tpot", "MLA", "vllm")) == table["tpot", "", ""]


def test_small_sets_have_no_ratio_of_their_own(drawn):
    few = [r for r in drawn if r.kind == "dense"] + [r for r in drawn if r.kind == "MoE"][
        : made.LEAST - 1
    ]
    assert ("tpot", "MoE", "") not in made.ratios(few)


def test_the_shipped_table_answers_for_every_model_and_engine():
    for name in ("llama-3.1-8b", "gpt-oss-120b", "deepseek-v3"):
        architecture = load_model(name)
        for quantity in made.QUANTITIES:
            for engine in ("vllm", "sglang", "tensorrt-llm", "llama.cpp"):
                ratio = left_out_ratio(quantity, architecture, engine)
                assert ratio == made.ratio_of(RATIOS, (quantity, class_of(architecture), engine))
                assert 0.0 < ratio < 5.0
    assert set(RATIOS) >= {("tpot", "", ""), ("ttft", "", "")}


def test_published_runs_lie_inside_about_as_often_as_intervals_say(sampled_score):
    """Every eleventh row: with 80 measurements, 80 % are known to about 5 %, and those of a class
    to 10 %."""
    for quantity in made.QUANTITIES:
        rows = [
            row
            for row in sampled_score["slices"]
            if row[quantity] and row[quantity]["measurements"] >= 15
        ]
        for row in rows:
            inside = row[quantity]["coverage_ratio"]
            if row["slice"] in ("all", "class"):
                assert (0.68 if row["slice"] == "all" else 0.55) <= inside <= 0.97, (
                    quantity,
                    row["value"],
                )
