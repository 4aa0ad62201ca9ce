"""What every page must say right, whatever the question: models, devices, formats and lengths by
their names, fronts with all their points, and how far off predictions are."""

import re

import pytest

from app.answers.scoring.certainty import BORROWED
from app.dashboard.answers.diffusion.page import answer_diffusion
from app.dashboard.answers.hardware import asked_hardware
from app.dashboard.answers.pareto import answer_pareto
from app.dashboard.answers.serving import asked_serving
from app.dashboard.answers.validation.badge import sure_of
from app.dashboard.answers.validation.page import answer_validation
from app.dashboard.pages import answered, answering
from app.dashboard.state import PAGES, State
from hardware_profiles.errors import RooftreeError
from tests.every import every

pytestmark = pytest.mark.heavy
OF_A_MODEL = [page for page in PAGES if page not in ("trace", "validation")]


def line_of(state):
    """The command line of a page's answer, of a simulation before it is run."""
    return asked_serving(state).line if state.page == "serving" else answered(state).command


@every("page", OF_A_MODEL)
def test_a_release_of_the_same_shape_keeps_its_name_on_every_page(page):
    line = line_of(State(page=page, model="llama-3.3-70b", tp=4))
    assert "--model llama-3.3-70b " in line


@every("page", OF_A_MODEL)
def test_a_modified_device_is_asked_about_on_every_page(page):
    line = line_of(State(page=page, bandwidth_gb_per_s=1000.0, memory_gb=160.0))
    for key in ("bandwidth_bytes_per_s", "memory_bytes"):
        assert f"--set device.{key}=" in line


@every("page", OF_A_MODEL)
def test_a_masked_model_is_never_answered_with_what_it_cannot_run(page):
    state = State(page=page, model="llada-8b", count=4, prompt_tokens=16, output_tokens=4)
    try:
        answer = answering(page)(state, *([lambda *told: None] * (page == "serving")))
    except RooftreeError as error:
        assert re.search("masked blocks", str(error))
        return
    assert "--method fast-dllm" in answer.command and not answer.engines
    assert "n-gram" not in answer.headline + answer.command


@every("length", [1, 3, 8])
def test_draft_tokens_are_those_of_the_question_on_every_page_that_takes_them(length):
    for asked in (asked_hardware, asked_serving):
        assert f"--draft-tokens {length} " in asked(State(draft_tokens=length)).line + " "
    trace = answered(State(page="trace", draft_tokens=length))
    assert f"--draft-tokens {length}" in trace.command and f"K = {length}," in trace.headline


def test_how_sure_a_tree_is_is_said_of_the_recording_that_it_was_built_from():
    state = State(page="tree", method="eagle-3")
    answer = answered(state)
    assert answer.command.count("--method early-exit ") == 1
    sure = sure_of(answer, state)
    assert sure.verdict == BORROWED
    assert sure.sentence.startswith("nearest to early-exit on llama-3.1-8b ")
    assert sure.sentence.endswith("borrowed from SmolLM2-135M-Instruct")


def test_one_line_says_how_far_off_predictions_of_the_nearest_runs_were():
    state = State(page="map", batch=8)
    answer = answered(state)
    sure, runs = sure_of(answer, state), answer.sure.nearest
    errors = sorted(100 * group.median_error_ratio for group in runs)
    assert len(runs) > 1 and all(f"{error:.1f} % off" in sure.sentence for error in errors)
    assert f"{errors[0]:.1f} to {errors[-1]:.1f} % off" in sure.brief
    assert f" {sum(group.runs for group in runs)} runs" in sure.brief


def test_drafters_of_one_method_are_told_apart_by_their_names():
    own = {"draft_bytes": "350MB", "draft_passes": 4, "draft_name": "ours", "known_by": "rate"}
    answer = answered(State(**own))
    tables = dict(answer.tables) | dict(answer.deferred().tables)
    drafters = [row["drafter"] for row in tables["Every drafter's best configuration here"]]
    assert sorted(drafters) == ["eagle-3", "llama-3.2-1b", "n-gram", "ours"]
    assert dict(answer.numbers)["Speculation"].startswith("on: ours, ")
    devices = tables["Every device with a price, on the fewest that hold it"]
    assert {row["drafts"].partition(",")[0] for row in devices} <= {"ours", "off"}


@pytest.mark.parametrize("asked", [{"batch": 24}, {"method": "n-gram", "batch": 8}, {}])
def test_the_command_of_a_batch_drafts_what_the_headline_says(asked):
    answer = answered(State(**asked))
    (tokens,) = re.findall(r"^Run \S+ with (\d+) draft tokens", answer.headline)
    (start,) = answer.engines
    assert f'"num_speculative_tokens":{tokens}' in start.command
    assert "per_batch_size" not in start.command
    assert f"chain of {tokens} draft tokens" in start.title


def drawn(figure, name):
    """Points of a figure's trace, by its name."""
    (trace,) = (trace for trace in figure["data"] if trace.get("name") == name)
    return list(zip(trace["x"], trace["y"], strict=True))


def test_the_front_of_layouts_has_every_point_in_its_table():
    answer = answer_pareto(State(page="pareto", batch=64))
    (_, rows), front = answer.tables[0], drawn(answer.cards[0].figure, "front")
    shown = {(row["tokens/s per user"], row["tokens/s per device"]) for row in rows}
    assert {(round(x, 1), round(y, 1)) for x, y in front} == shown and len(rows) == len(front)


def test_the_front_of_policies_has_every_point_in_its_table():
    later = answer_diffusion(State(page="diffusion")).deferred()
    tables, front = dict(later.tables), drawn(later.cards[0].figure, "Pareto front")
    rows = tables["On the front, fastest first"]
    shown = [(row["agreement (%)"], row["tokens/s"]) for row in rows]
    assert sorted((round(100 * x, 1), round(y, 1)) for x, y in front) == sorted(shown)
    assert all(row["on the front"] for row in rows)


def test_how_far_off_predictions_are_is_one_statement(root):
    answer = answer_validation(State())
    numbers = dict(answer.numbers)
    page = (root / "VALIDATION.md").read_text(encoding="utf-8")
    assert answer.headline in page and answer.headline in (root / "README.md").read_text()
    assert f"| all | {numbers['Runs answered']} |" in page
