"""The figures' data: what is plotted is what the answer says, and names stay text."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers.optimize.rankings import read_rankings
from app.render.charts import charts
from traces.kinds.tree import Tree

HOSTILE = '<img src=x onerror="alert(1)">&<b>'


def spelled(topology, draft_tokens):
    """What answers print of a draft."""
    return "off" if topology == "off" else f"{topology}:{draft_tokens}"


def row(
    batch,
    speedup,
    *,
    context=1024,
    method="eagle-3",
    drafter="",
    topology="chain",
    draft_tokens=4,
    tree=None,
):
    """A ranked configuration with intervals of ± 10 %."""

    def spread(value):
        return [0.9 * value, 1.1 * value]

    values = {
        "tokens_per_step": 1.2 + speedup,
        "step_s": 0.004 + 0.001 * batch,
        "tokens_per_s": 150.0 * batch * speedup,
    }
    values["speedup"] = speedup
    return {
        "batch": batch,
        "context": context,
        "method": method,
        "topology": topology,
        "draft": spelled(topology, draft_tokens),
        "draft_tokens": draft_tokens,
        "drafter": drafter or method,
        "tree": tree,
        **values,
        **{f"{key}_interval": spread(value) for key, value in values.items()},
        "limit": "bandwidth",
        "breakdown_s": {"draft": 0.001, "verify": 0.002 + 0.001 * batch, "overhead": 0.001},
        "provenance": {"acceptance": {"borrowed": False}},
    }


def answer(choices, alternatives=(), curves=()):
    """The rankings of an answer that was saved."""
    names = dict.fromkeys(r["drafter"] for r in (*choices, *alternatives))
    return read_rankings(
        {
            "choices": list(choices),
            "alternatives": list(alternatives),
            "curves": list(curves),
            "drafters": [{"name": name} for name in names],
        }
    )


def point(draft_tokens, tokens_per_step, *, topology="chain", drafter="eagle-3", **more):
    span = [tokens_per_step - 0.1, tokens_per_step + 0.1]
    return {
        "drafter": drafter,
        "draft": spelled(topology, draft_tokens),
        "draft_tokens": draft_tokens,
        "topology": topology,
        "tokens_per_step": tokens_per_step,
        "interval": span,
        **more,
    }


BINARY = {"parents": [-1, 0, 0, 1], "ranks": [0, 0, 1, 0], "root_included": True}
USUAL = answer(
    [row(1, 2.0), row(16, 1.5), row(1, 1.8, context=4096), row(16, 1.2, context=4096)],
    [row(16, 1.1, method="n-gram"), row(1, 1.3, method="n-gram")],
    [point(0, 1.0, topology="off"), point(1, 1.7), point(2, 2.1), point(3, 2.0, topology="tree")],
)
OFF = answer(
    [row(b, 1.0, topology="off", draft_tokens=0) for b in (1, 8)],
    curves=[point(0, 1.0, topology="off")],
)
SINGLE = answer([row(8, 1.4)], [row(8, 1.1, method="n-gram")], [point(5, 2.0)])


def named(figure, name):
    return next(t for t in figure["data"] if t.get("name") == name)


def figures_of(subject):
    for context in subject.contexts:
        yield charts.speedup_figure(subject, context)
        yield charts.throughput_figure(subject, context)
        yield charts.step_time_figure(subject, context)
    curve = charts.acceptance_figure(subject)
    if curve:
        yield curve


@pytest.mark.parametrize("subject", [USUAL, OFF, SINGLE], ids=["usual", "off", "single"])
def test_figures_are_figures_to_plotly_and_to_json(subject):
    objects = pytest.importorskip("plotly.graph_objects")
    tree = charts.tree_figure(Tree.from_json(BINARY), [0.5, 0.2, 0.0])
    for figure in (*figures_of(subject), tree, charts.tree_figure(Tree.from_json(BINARY), None)):
        assert objects.Figure(figure).data, "an unknown or misspelt property raises"
        assert json.loads(json.dumps(figure, allow_nan=False)) == figure
        if "title" in figure["layout"]["xaxis"]:
            assert (
                "(" in figure["layout"]["xaxis"]["title"]["text"]
                or "per" in figure["layout"]["xaxis"]["title"]["text"]
            )


def test_the_speedup_line_is_the_answer_in_order_of_batch():
    figure = charts.speedup_figure(USUAL, 1024)
    assert named(figure, "eagle-3")["x"] == [1, 16]
    assert named(figure, "eagle-3")["y"] == [2.0, 1.5]
    assert named(figure, "n-gram")["y"] == [1.3, 1.1], "alternatives come in any order"
    assert named(figure, "no speculation")["y"] == [1.0, 1.0]
    assert named(charts.speedup_figure(USUAL, 4096), "eagle-3")["y"] == [1.8, 1.2]
    assert "chain:4" in named(figure, "eagle-3")["hovertext"][0]
    assert "1.80–2.20×" in named(figure, "eagle-3")["hovertext"][0]


def test_bands_enclose_their_lines():
    figure = charts.throughput_figure(USUAL, 1024)
    bands = [t for t in figure["data"] if t.get("fill") == "toself"]
    assert len(bands) == 2
    for band in bands:
        line = named(figure, band["legendgroup"])
        count = len(line["x"])
        assert band["x"] == [*line["x"], *reversed(line["x"])]
        low, high = band["y"][:count], band["y"][count:][::-1]
        assert all(a < y < b for a, y, b in zip(low, line["y"], high, strict=True))


def test_a_single_batch_has_error_bars_and_no_band():
    figure = charts.speedup_figure(SINGLE, 1024)
    assert not [t for t in figure["data"] if t.get("fill")]
    line = named(figure, "eagle-3")
    assert line["error_y"]["array"] == pytest.approx([0.14])
    assert line["error_y"]["arrayminus"] == pytest.approx([0.14])
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < high


def test_an_interval_that_is_unknown_is_left_out():
    subject = answer([{**row(1, 2.0), "speedup_interval": [None, 2.2]}, row(16, 1.5)])
    figure = charts.speedup_figure(subject, 1024)
    assert not [t for t in figure["data"] if t.get("fill")], "one point is left, and has no width"
    assert charts.interval_words([None, 2.2]) == charts.interval_words(None) == ""


def test_off_everywhere_is_drawn_at_one_with_open_circles():
    line = named(charts.speedup_figure(OFF, 1024), "eagle-3")
    assert line["y"] == [1.0, 1.0]
    assert line["marker"]["symbol"] == ["circle-open"] * 2
    assert charts.acceptance_figure(OFF) is None
    assert charts.best_tree(OFF) is None


def test_plain_decoding_is_the_rate_without_the_speedup():
    reference = named(charts.throughput_figure(USUAL, 1024), "no speculation")
    assert reference["y"] == pytest.approx([150.0, 2400.0])


def test_phases_stack_to_the_step():
    figure = charts.step_time_figure(USUAL, 1024)
    assert figure["layout"]["barmode"] == "stack"
    totals = [sum(values) for values in zip(*(t["y"] for t in figure["data"]), strict=True)]
    assert totals == pytest.approx([1000 * r.step_s for r in USUAL.choices[:2]])
    assert [t["name"] for t in figure["data"]] == ["draft", "verify", "overhead"]


def test_the_best_tree_of_each_size_is_a_point_and_no_drafting_is_none():
    curves = [point(2, 2.1), point(1, 1.7), point(0, 1.0, topology="off")]
    curves += [
        point(8, 2.4, topology="tree"),
        point(8, 2.6, topology="tree"),
        point(4, 2.2, topology="tree"),
    ]
    figure = charts.acceptance_figure(answer([row(1, 2.0)], curves=curves))
    assert named(figure, "eagle-3")["x"] == [1, 2]
    trees = named(figure, "eagle-3, trees")
    assert (trees["x"], trees["y"], trees["mode"]) == ([4, 8], [2.2, 2.6], "markers")
    assert charts.acceptance_figure(answer([row(1, 2.0)])) is None, "an answer without curves"


def test_drafters_of_one_method_keep_their_own_names():
    subject = answer([row(1, 2.0, drafter="eagle-3 (x)")], [row(1, 1.5, drafter="eagle-3 (y)")])
    assert charts.drafters(subject) == ["eagle-3 (x)", "eagle-3 (y)"]
    assert charts.drafters(USUAL) == ["eagle-3", "n-gram"]
    assert charts.drafters(replace(USUAL, drafters=[])) == ["eagle-3", "n-gram"]


def test_colours_belong_to_contenders_not_to_places():
    subject = answer(
        [row(1, 2.0), row(1, 1.5, context=9, method="n-gram")], [row(1, 1.1, method="n-gram")]
    )
    both, alone = charts.speedup_figure(subject, 1024), charts.speedup_figure(subject, 9)
    assert named(both, "n-gram")["line"] == named(alone, "n-gram")["line"]
    assert named(both, "n-gram")["line"] != named(both, "eagle-3")["line"]


def test_hostile_names_leave_as_text():
    subject = answer([row(1, 2.0, drafter=HOSTILE)], curves=[point(3, 2.0, drafter=HOSTILE)])
    for figure in figures_of(subject):
        assert "<img" not in json.dumps(figure)
    names = [t["name"] for t in charts.speedup_figure(subject, 1024)["data"] if "name" in t]
    assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;&lt;b&gt;" in names


def test_the_tree_worth_drawing_is_a_winner_before_a_faster_alternative():
    won, lost = row(1, 1.5, topology="tree", tree=BINARY), row(2, 3.0, topology="tree", tree=BINARY)
    first, second = answer([won, row(2, 3.1)], [lost]), answer([row(2, 3.1)], [lost])
    assert charts.best_tree(first) is first.choices[0]
    assert charts.best_tree(second) is second.alternatives[0]


def test_node_shares_belong_to_the_tree_of_that_number():
    chosen = row(1, 1.5, topology="tree", draft_tokens=3, tree=BINARY)
    other = point(3, 9.0, topology="tree", path_acceptance=[0.1, 0.1, 0.1])
    same = point(3, chosen["tokens_per_step"], topology="tree", path_acceptance=[0.5, 0.2, 0.1])
    both, alone = answer([chosen], curves=[other, same]), answer([chosen], curves=[other])
    assert charts.path_acceptance(both, both.choices[0]) == [0.5, 0.2, 0.1]
    assert charts.path_acceptance(alone, alone.choices[0]) is None


@st.composite
def trees(draw):
    """Trees of up to 40 draft tokens, in the order in which their nodes were hung on."""
    parents, ranks, used = [-1], [0], set()
    for _ in range(draw(st.integers(1, 40))):
        parent, rank = draw(st.integers(0, len(parents) - 1)), draw(st.integers(0, 5))
        if (parent, rank) not in used:
            used.add((parent, rank))
            parents.append(parent)
            ranks.append(rank)
    return Tree(parents=tuple(parents), ranks=tuple(ranks))


@given(trees())
def test_a_drawn_tree_has_every_node_once_and_siblings_by_rank(tree):
    edges, nodes, root = charts.tree_figure(tree, [0.5] * tree.draft_tokens)["data"]
    x, y = [*root["x"], *nodes["x"]], [*root["y"], *nodes["y"]]
    assert y == [-level for level in tree.node_levels()]
    assert len(set(zip(x, y, strict=True))) == tree.nodes, "no node hides another"
    assert len(edges["x"]) == 3 * tree.draft_tokens
    for node in range(1, tree.nodes):
        siblings = [n for n in range(1, tree.nodes) if tree.parents[n] == tree.parents[node]]
        assert all((x[n] < x[node]) == (tree.ranks[n] < tree.ranks[node]) for n in siblings)
    assert charts.tree_leaves(tree) == sum(node not in tree.parents for node in range(tree.nodes))


def test_shares_of_another_tree_are_not_painted():
    tree = Tree.from_json(BINARY)
    assert "colorscale" in charts.tree_figure(tree, [0.5, 0.2, 0.0])["data"][1]["marker"]
    assert "colorscale" not in charts.tree_figure(tree, [0.5])["data"][1]["marker"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.8755, "1.88"),
        (11243.9, "11,200"),
        (0.0123, "0.0123"),
        (0, "0"),
        (999.6, "1,000"),
        (None, "unknown"),
    ],
)
def test_three_digits(value, text):
    assert charts.digits(value) == text


@given(st.floats(1e-6, 1e9))
def test_digits_round_by_no_more_than_half_a_percent(value):
    assert float(charts.digits(value).replace(",", "")) == pytest.approx(value, rel=0.00501)


@given(st.lists(st.integers(1, 4096), min_size=1, unique=True).map(sorted))
def test_ticks_are_asked_batches_that_do_not_crowd(batches):
    axis = charts.speedup_figure(answer([row(b, 1.5) for b in batches]), 1024)["layout"]["xaxis"]
    assert set(axis["tickvals"]) <= set(batches)
    assert 1 <= len(axis["tickvals"]) <= charts.MOST_TICKS + 1
    assert axis["tickvals"] == sorted(axis["tickvals"])


def test_the_first_colours_stand_out_on_white_and_on_near_black():
    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for color in charts.PALETTE[:4]:
        for ground in ("#ffffff", "#181c21"):
            light, dark = sorted((luminance(color), luminance(ground)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3.0, (color, ground)
