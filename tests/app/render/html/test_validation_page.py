"""The page stands alone, draws every point, and takes nothing in a report for more than text."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("plotly")
pytest.importorskip("torch")

from app.answers.validation.rows import Errors, ValidationReport
from app.render.html.validation_page import validation_page, write_validation_page
from hardware_profiles.errors import InputError
from real_runs.validation.score import Point, Regret


def point(configuration="early-exit-2", **changes):
    rates = {
        "tokens_per_s": 20.0,
        "tokens_per_step": 1.5,
        "step_s": 0.075,
        "draft_s": 0.02,
        "verify_s": 0.05,
        "rest_s": 0.005,
    }
    values = {
        "kind": "overlap",
        "context": 512,
        "batch": 1,
        "configuration": configuration,
        "drafter": "early-exit",
        "topology": "chain",
        "draft_tokens": 2,
        "chosen": False,
        "runs": 4,
        "disturbed": 0,
        "differing": 0,
        "measured": rates,
        "predicted": {**rates, "tokens_per_s": 21.0},
        "error_ratio": 0.05,
        "interval": (19.0, 23.0),
        "covered": True,
    }
    return Point(**values | changes)


def report(points):
    errors = Errors(
        configurations=len(points),
        median_error_ratio=0.05,
        p90_error_ratio=0.1,
        step_median_error_ratio=0.05,
        tokens_per_step_median_error_ratio=0.0,
        bias_ratio=0.01,
        coverage_ratio=0.8,
        median_half_width_ratio=0.1,
        mean_regret_ratio=0.02,
        most_regret_ratio=0.5,
    )
    lost = Regret(
        kind="overlap",
        context=0,
        batch=1,
        chosen="a",
        best="b",
        chosen_tokens_per_s=1.0,
        best_tokens_per_s=2.0,
        plain_tokens_per_s=1.0,
        regret_ratio=0.5,
    )
    return ValidationReport(
        inputs={},
        about={"model": "m", "device": "d", "threads": 1},
        summary=errors,
        by={"drafter": {"x": errors}},
        regrets=[lost],
        points=points,
        costs={},
        missing_runs=0,
        left_out=(),
        out=Path(),
    )


def figures(page):
    return json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_stands_alone_and_draws_every_point(tmp_path):
    points = [
        point(),
        point("plain", drafter="", topology="off", batch=4, chosen=True),
        point("tree", topology="tree"),
    ]
    place = tmp_path / "sub" / "v.html"
    write_validation_page(report(points), place)
    page = place.read_text()
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=", markup) and "default-src" in markup
    drawn = figures(page)
    assert len(drawn) == 4
    marks = [trace for trace in drawn["plot-0"]["data"] if trace["mode"] == "markers"]
    assert sum(len(trace["x"]) for trace in marks) == 3
    assert len(drawn["plot-1"]["data"][0]["x"]) == 3
    assert validation_page(report(points)) == page
    assert report(points).summary.sentence.startswith(
        "3 configurations: tokens per second off by 5.0%"
    )
    assert "50.0%" in page


def test_names_in_a_report_are_text():
    evil = "</script><img src=x onerror=alert(1)>"
    page = validation_page(report([point(evil, kind=evil)]))
    assert "<img" not in page.split('id="figures">')[0]
    assert "</script><img" not in page


def test_nothing_to_draw_is_said():
    with pytest.raises(InputError, match="1 to 5000 points"):
        validation_page(report([]))
