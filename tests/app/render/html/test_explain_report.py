"""Pages of explanations and break-evens: whole, guarded, refused where they cannot be written."""

import json
import re

import numpy as np
import pytest

from app.answers.explanations import explanation, roofs_of
from app.render.html import page
from app.render.html.explain_report import write_break_even, write_explanations
from costmodel.answers.explain import explain
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from hardware_profiles.errors import InputError

pytest.importorskip("plotly")

SETTING = build_setting(
    DecodingConfiguration(
        method="n-gram", deployment=DeploymentNames(model="llama-3.2-1b", device="l4")
    )
)
HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def answer():
    told = explanation(
        explain(
            SETTING, geometric(0.5, 3), batch=4, context=512, generator=np.random.default_rng(0)
        )
    )
    rows = [{"batch": 4, "context": 512, "draft_tokens": 3, "explain": told}]
    return {"inputs": {"model": HOSTILE, "device": "l4", "method": "n-gram"}, "predictions": rows}


def figures(page):
    return json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL).group(1))


def test_an_explanation_is_a_standalone_page(answer, tmp_path):
    path = tmp_path / "new" / "explain.html"
    write_explanations(answer, roofs_of(SETTING), path)
    page = path.read_text(encoding="utf-8")
    assert set(figures(page)) == {"roofline-0", "step-0"}
    assert answer["predictions"][0]["explain"]["sentence"].replace("'", "&#x27;") in page
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert "alert(1)</script><" not in page and not re.search(
        r"<(script|link)[^>]* (src|href)=", page[:3000]
    )
    assert [p.name for p in path.parent.iterdir()] == ["explain.html"]


def test_break_evens_have_a_map_per_draft_length(tmp_path):
    points = [
        {"batch": b, "context": 512, "draft_tokens": k, "least_acceptance": 0.3, "speedup": 1.2}
        for b in (1, 8)
        for k in (1, 3)
    ]
    write_break_even({"inputs": {}, "points": points}, tmp_path / "b.html")
    page = (tmp_path / "b.html").read_text(encoding="utf-8")
    assert set(figures(page)) == {"least-1", "speedup-1", "least-3", "speedup-3"}
    assert "1 draft token<" in page and "3 draft tokens<" in page
    unknown = [{key: value for key, value in p.items() if key != "speedup"} for p in points]
    write_break_even({"inputs": {}, "points": unknown}, tmp_path / "u.html")
    assert set(figures((tmp_path / "u.html").read_text(encoding="utf-8"))) == {"least-1", "least-3"}


def test_a_place_that_cannot_be_written_is_refused(answer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_explanations(answer, roofs_of(SETTING), tmp_path / "file" / "explain.html")


def test_without_plotly_the_page_is_refused(answer, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "plots_available", lambda: False)
    with pytest.raises(InputError, match="needs plotly"):
        write_explanations(answer, roofs_of(SETTING), tmp_path / "explain.html")
    assert not list(tmp_path.iterdir())
