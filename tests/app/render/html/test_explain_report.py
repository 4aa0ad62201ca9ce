"""Pages of explanations and break-evens: whole, guarded, refused where they cannot be written."""

import json
import re
from dataclasses import replace

import pytest

from app.answers.cells import MarkedCell
from app.cli.door import ask
from app.questions.breakeven import BreakevenQuestion
from app.questions.predict import PredictQuestion
from app.render.files import write_files
from app.render.html import page
from app.render.html.explain_report import write_break_even, write_explanations
from hardware_profiles.errors import InputError

pytest.importorskip("plotly")

DRAFTED = {"model": "llama-3.2-1b", "device": "l4", "method": "n-gram", "draft_tokens": (3,)}
HOSTILE = "</script><script>alert(1)</script>"


def predictions(batches):
    values = DRAFTED | {"acceptance": (0.5,), "batch": batches, "context": (512,), "explain": True}
    return ask(PredictQuestion, values, silent=True)


@pytest.fixture(scope="module")
def answer():
    answer = predictions((4,))
    return replace(answer, inputs={**answer.inputs, "model": HOSTILE})


def figures(page):
    return json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL).group(1))


def test_an_explanation_is_a_standalone_page(answer, tmp_path):
    path = tmp_path / "new" / "explain.html"
    write_explanations(answer, path)
    page = path.read_text(encoding="utf-8")
    assert set(figures(page)) == {"roofline-0", "step-0"}
    assert answer.predictions[0].explain.sentence.replace("'", "&#x27;") in page
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert "alert(1)</script><" not in page and not re.search(
        r"<(script|link)[^>]* (src|href)=", page[:3000]
    )
    assert [p.name for p in path.parent.iterdir()] == ["explain.html"]


def test_cells_that_do_not_fit_are_left_out(tmp_path):
    answer = predictions((1, 1_000_000, 4))
    assert isinstance(answer.predictions[1], MarkedCell)
    write_files(answer, tmp_path / "out")
    page = (tmp_path / "out" / "explain.html").read_text(encoding="utf-8")
    assert set(figures(page)) == {"roofline-0", "step-0", "roofline-2", "step-2"}


def test_break_evens_have_a_map_per_draft_length(tmp_path):
    values = DRAFTED | {"draft_tokens": (1, 3), "batch": (1, 8), "context": (512,)}
    stated = ask(BreakevenQuestion, values | {"acceptance": (0.5,)}, silent=True)
    write_break_even(stated, tmp_path / "b.html")
    page = (tmp_path / "b.html").read_text(encoding="utf-8")
    assert set(figures(page)) == {"least-1", "speedup-1", "least-3", "speedup-3"}
    assert "1 draft token<" in page and "3 draft tokens<" in page
    write_break_even(ask(BreakevenQuestion, values, silent=True), tmp_path / "u.html")
    assert set(figures((tmp_path / "u.html").read_text(encoding="utf-8"))) == {"least-1", "least-3"}


def test_a_place_that_cannot_be_written_is_refused(answer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_explanations(answer, tmp_path / "file" / "explain.html")


def test_without_plotly_the_page_is_refused(answer, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "plots_available", lambda: False)
    with pytest.raises(InputError, match="needs plotly"):
        write_explanations(answer, tmp_path / "explain.html")
    assert not list(tmp_path.iterdir())


def test_break_evens_of_masked_blocks_are_maps_of_the_pace(tmp_path):
    values = {"model": "llada-8b", "method": "fast-dllm", "batch": (1, 4), "context": (500,)}
    answer = ask(BreakevenQuestion, values, silent=True)
    write_break_even(answer, tmp_path / "breakeven.html")
    page = (tmp_path / "breakeven.html").read_text(encoding="utf-8")
    drawn = figures(page)
    assert set(drawn) == {"least-masked", "speedup-masked"} and "do masked blocks pay" in page
    (heat,) = drawn["least-masked"]["data"]
    assert heat["z"] == [[point.least_tokens_per_step for point in answer.points]]
