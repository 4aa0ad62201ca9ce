"""Measurements count once, whatever labels they carry, and bad rows are counted with their
reason."""

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers.scoring.measured import measurements, model_class
from app.answers.scoring.summaries import slices, summary
from simulator.closed_loop.table_rows import RowAnswer

ROW = {
    "backend": "vllm",
    "model_path": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "isl": 512,
    "osl": 64,
    "concurrency": 8,
    "ttft_ms": 40.0,
    "tpot_ms": 8.0,
}


def answer(tpot, ttft=50.0, **more):
    return RowAnswer(
        id=more.pop("id", "x"),
        tpot_ms=tpot,
        ttft_ms=ttft,
        tpot_ms_interval=(0.8 * tpot, 1.3 * tpot),
        ttft_ms_interval=(0.5 * ttft, 2.0 * ttft),
        seconds={"gemm": 3.0, "attention": 1.0},
        ttft_seconds={"intake": 0.1, "queue": 0.1, "prefill": 0.2},
        **more,
    )


def test_equal_times_of_equal_users_are_one_measurement_with_the_median_answer():
    rows = [
        ROW,
        ROW | {"model_path": "meta-llama/Llama-3.1-8B-Instruct"},
        ROW | {"concurrency": 4},
        ROW | {"backend": "trtllm"},
    ]
    found, unusable = measurements(rows, [answer(9.0), answer(11.0), answer(8.0), answer(8.0)])
    assert [len(m.ids) for m in found] == [2, 1, 1] and not unusable
    assert found[0].tpot.predicted_ms == 10.0
    assert found[0].tpot.error_ratio == pytest.approx(0.25)
    assert found[0].shares["tpot"] == {"gemm": 0.75, "attention": 0.25}


def test_the_tables_own_mark_joins_rows_whose_digits_differ():
    rows = [
        ROW | {"measurement": "a"},
        ROW | {"measurement": "a", "tpot_ms": 8.0001, "system": "h100"},
    ]
    found, _ = measurements(rows, [answer(9.0), answer(9.0)])
    assert len(found) == 1


def test_a_measured_median_is_compared_with_the_median():
    rows = [ROW, ROW | {"ttft_median_ms": 30.0, "concurrency": 9}]
    found, _ = measurements(rows, [answer(9.0, ttft=50.0, ttft_median_ms=33.0)] * 2)
    assert [m.ttft.predicted_ms for m in found] == [50.0, 33.0]
    assert found[1].ttft.measured_ms == 30.0
    assert found[1].ttft.interval_ms == pytest.approx((16.5, 66.0))


def test_one_number_alone_joins_nothing():
    rows = [{key: value for key, value in ROW.items() if key != "ttft_ms"}] * 2
    found, _ = measurements(rows, [answer(9.0), answer(9.0)])
    assert len(found) == 2 and found[0].ttft is None and found[0].compared("ttft") is None


def test_a_group_is_refused_only_where_all_its_rows_are():
    refused = RowAnswer(id="y", reason="not known")
    (one,), _ = measurements([ROW, ROW], [refused, answer(8.0)])
    assert one.reason is None and one.tpot.error_ratio == 0.0
    (none,), _ = measurements([ROW, ROW], [refused, refused])
    assert none.reason == "not known" and none.compared("tpot") is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ttft_ms": "", "tpot_ms": None}, "holds no measurement"),
        ({"tpot_ms": -1.0}, "time above 0, got '-1.0'"),
        ({"tpot_ms": "fast"}, "tpot_ms: must be a time"),
        ({"implausible": True}, "implausible"),
        ({"silicon_tpot_ms": 0}, "silicon_tpot_ms"),
    ],
)
def test_rows_without_a_measurement_are_counted_by_reason(more, said):
    found, unusable = measurements([ROW | more, ROW], [answer(8.0)] * 2)
    assert len(found) == 1
    ((reason, count),) = unusable.items()
    assert said in reason and count == 1


def test_columns_of_measured_times_have_an_order():
    row = ROW | {"silicon_tpot_ms": 4.0, "measured_tpot_ms": 5.0, "measured_ttft_ms": 30.0}
    (m,), _ = measurements([row], [answer(8.0)])
    assert (m.tpot.measured_ms, m.ttft.measured_ms) == (4.0, 30.0)


def test_classes_of_models():
    names = ("llama-3.1-8b", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1", "acme/none")
    assert [model_class(name) for name in names] == ["dense", "MoE", "MLA", "unknown"]


times = st.floats(min_value=0.1, max_value=1e4)


@given(
    st.lists(st.tuples(times, times, times, st.integers(1, 500)), min_size=1, max_size=12),
    st.randoms(),
)
def test_repeating_and_shuffling_rows_changes_no_number(drawn, random):
    rows = [ROW | {"tpot_ms": t, "ttft_ms": f, "concurrency": c} for t, f, _, c in drawn]
    answers = [answer(p) for _, _, p, _ in drawn]
    once = measurements(rows, answers)[0]
    groups = {(r["tpot_ms"], r["ttft_ms"], r["concurrency"]): i for i, r in enumerate(rows)}
    again = (
        [*range(len(rows)), *groups.values()] if len(groups) == len(rows) else [*range(len(rows))]
    )
    random.shuffle(again)
    twice = measurements([rows[i] for i in again], [answers[i] for i in again])[0]

    def numbers(found):
        whole = summary(found)
        return [value for errors in (whole.tpot, whole.ttft) for value in astuple(errors)]

    assert numbers(twice) == pytest.approx(numbers(once))
    for name in {row.slice for row in slices(once)}:
        assert sum(r.measurements for r in slices(once) if r.slice == name) == len(once)
