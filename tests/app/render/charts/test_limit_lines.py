"""A limit lies where the axis says that it is."""

import pytest

from app.dashboard.asking import Asked
from app.questions.optimize import OptimizeQuestion
from app.render.charts import charts, limit_lines


@pytest.fixture(scope="module")
def rankings():
    asked = Asked(
        verb=OptimizeQuestion,
        values={
            "model": "llama-3.1-8b",
            "device": "h100-sxm",
            "drafter": ("eagle-3",),
            "batch": "1,8,64",
            "slo_tpot": 8.0,
        },
    )
    return asked.answer().rankings


def limit_of(figure):
    (line,) = [line for line in figure["data"] if line.get("name") == "limit: 8 ms a token"]
    return line


def test_the_pace_of_a_batch_is_its_users_over_the_limit(rankings):
    line = limit_of(charts.throughput_figure(rankings, 1024))
    assert line["y"] == pytest.approx([batch / 0.008 for batch in line["x"]])
    for row in rankings.choices:
        assert row.tokens_per_s >= row.batch / 0.008


def test_times_per_token_lie_below_the_limit(rankings):
    figure = charts.time_per_token_figure(rankings, 1024)
    assert set(limit_of(figure)["y"]) == {8.0}
    (drawn,) = [line for line in figure["data"] if line.get("name") == "eagle-3"]
    assert drawn["y"] == pytest.approx([1000 * row.tpot_s for row in rankings.ranked])
    assert max(drawn["y"]) < 8.0 < figure["layout"]["yaxis"]["range"][1] * 1.7


def test_a_step_may_take_as_long_as_its_tokens_are_allowed(rankings):
    marks = limit_of(charts.step_time_figure(rankings, 1024))
    rows = rankings.at(1024)
    assert marks["x"] == [str(row.batch) for row in rows]
    assert marks["y"] == pytest.approx([8.0 * row.tokens_per_step for row in rows])
    for mark, row in zip(marks["y"], rows, strict=True):
        assert (1000 * row.step_s <= mark) == (row.tpot_s <= 0.008)


def test_nothing_is_drawn_without_a_limit():
    assert limit_lines.pace_line([1, 2], None) == limit_lines.level_line([1, 2], None) == []
    assert limit_lines.step_marks(["1"], [2.0], None) == []
    assert limit_lines.pace_level([0.0, 1.0], 8, None) == []
    assert limit_lines.upright_line(None, 1.0, 2.0) == []


def test_a_limit_far_above_leaves_the_axis_to_what_is_drawn():
    far = limit_lines.level_line([1, 2], 1.0)
    assert limit_lines.with_room({}, 10.0, far)["range"][1] < 20
    near = limit_lines.level_line([1, 2], 0.012)
    assert limit_lines.with_room({}, 10.0, near)["range"][1] == pytest.approx(12.6)
    assert limit_lines.with_room({}, 20.0, near) == {}
