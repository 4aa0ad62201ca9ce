"""The notebook runs from its first cell to its last, and every cell shows what it promises."""

import ast
import contextlib
import io
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).with_name("counters_to_engine.ipynb")


def cells():
    found = json.loads(NOTEBOOK.read_text())
    assert (found["nbformat"], found["metadata"]["kernelspec"]["language"]) == (4, "python")
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]


def run(source, names):
    """A cell as a kernel runs it: statements, then the value of a last expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    return (
        None
        if last is None
        else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Values of the cells, what they printed, and the names that they left."""
    values, names, screen = [], {"__name__": "__main__"}, io.StringIO()
    with contextlib.chdir(tmp_path_factory.mktemp("notebook")), contextlib.redirect_stdout(screen):
        for source in cells():
            values.append(run(source, names))
        shown = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
    return values, screen.getvalue(), names, shown


def test_every_answer_shows_as_a_table_or_a_figure(ran):
    values, _, names, shown = ran
    assert len(shown) == 6 and sum("<table" in page for page in shown) >= 4
    assert "level: 0" in names["trace"]._repr_html_()
    (figure,) = [value for value in values if type(value).__module__.startswith("plotly")]
    assert len(figure.data) >= 2


def test_the_counters_are_the_answers_acceptance(ran):
    """Of 42,000 drafts 31,500, 21,840 and 15,540 accepted their first, second and third token."""
    _, _, names, _ = ran
    rows = names["rooftree"].replay(names["trace"], draft_tokens=[1, 2, 3])["chains"]
    assert [row["tokens_per_step"] for row in rows] == pytest.approx([1.75, 2.27, 2.64])


def test_the_notebook_ends_at_the_engines_file(ran):
    _, printed, names, _ = ran
    config = json.loads(
        printed[printed.index("{") : printed.rindex("}\n", 0, printed.index("vllm serve")) + 1]
    )
    assert config["method"] == "eagle3"
    drafted = [row["draft_tokens"] for row in names["answer"]["choices"]]
    assert drafted[0] >= 2 and drafted == sorted(drafted, reverse=True)
    assert (
        "vllm serve" in printed
        and (names["folder"] / "recommendation.json").name == "recommendation.json"
    )
