"""A whole validation on a tiny model: recorded, chosen, run, scored, told, and gone on with."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("scipy")

from app.cli.main import main
from hardware_profiles.errors import InputError
from real_runs.decoding.timed_pass import TimedPass
from real_runs.trials.trials import PromptCell
from real_runs.validation.cells import KINDS
from real_runs.validation.loop_costs import check_uncalibrated
from real_runs.validation.own_loop.validate import OwnLoopOptions, validate_own_loop
from real_runs.validation.runs import Run
from real_runs.validation.subject import BenchOptions, UnscoredError

TEXTS = ("one two one two", "a b c a b c a", "xyzzy xyzzy", "0 1 2 0 1 2")
PROMPTS = 'title = "few"\n' + "".join(
    f'[[prompts]]\nid = "{kind.replace(" ", "-")}-{n}"\nkind = "{kind}"\ntext = "{kind}:'
    f' {TEXTS[n]}"\n'
    for kinds in KINDS.values()
    for kind in kinds
    for n in range(4)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("validate")
    (folder / "prompts.toml").write_text(PROMPTS)
    return folder


@pytest.fixture(scope="module")
def words(tiny_folder, folder):
    return [
        "validate",
        "--profile",
        "cpu-generic",
        "--model",
        tiny_folder,
        "--prompts",
        folder / "prompts.toml",
        "--fidelity",
        "calibrated",
        "--context",
        "0",
        "--fit-context",
        "120,200",
        "--new-tokens",
        "8",
        "--rounds",
        "1",
        "--per-cell",
        "2",
        "--drafter",
        "prompt-lookup",
        "--drafter",
        "suffix-automaton",
        "--keep-disturbed",
        "--budget",
        "5m",
        "--out",
        folder / "out",
        "--json",
    ]


@pytest.fixture(scope="module")
def answer(words, folder):
    import contextlib
    import io

    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        assert main([str(word) for word in words]) == 0
    return json.loads(told.getvalue())


def test_the_report_holds_what_was_predicted_and_measured(answer, folder):
    points = answer["points"]
    assert answer["summary"]["configurations"] == len(points) >= 8 and not answer["missing_runs"]
    cells = {(p["kind"], p["batch"]) for p in points}
    assert cells == {(kind, batch) for kind in ("overlap", "ordinary") for batch in (1, 4)}
    for point in points:
        rate = point["predicted"]["tokens_per_s"]
        assert point["error_ratio"] == pytest.approx(rate / point["measured"]["tokens_per_s"] - 1)
        assert point["predicted"]["tokens_per_step"] == pytest.approx(
            point["measured"]["tokens_per_step"]
        )
        assert point["differing"] == 0 and point["interval"][0] < rate < point["interval"][1]
    for cell in cells:
        here = [p for p in points if (p["kind"], p["batch"]) == cell]
        assert sum(p["chosen"] for p in here) == 1 and "plain" in {p["configuration"] for p in here}
        assert len({p["configuration"] for p in here}) == len(here)
    assert len(answer["regrets"]) == 4 and all(
        0 <= each["regret_ratio"] < 1 for each in answer["regrets"]
    )
    out = folder / "out"
    assert json.loads((out / "validation.json").read_text())["summary"] == answer["summary"]
    assert (out / "validation.parquet").exists() and (
        out / "validation.html"
    ).read_text().startswith("<!doctype")


def test_no_fitted_configuration_or_prompt_is_scored(answer, folder):
    lines = [
        json.loads(line)
        for line in (folder / "out" / "runs.part.jsonl").read_text().splitlines()[1:]
    ]
    fits = [line for line in lines if line["cell"].startswith("fit")]
    scored = [line for line in lines if not line["cell"].startswith("fit")]
    assert fits and scored
    assert not {p for line in fits for p in line["prompts"]} & {
        p for line in scored for p in line["prompts"]
    }
    shared = {line["configuration"] for line in fits} & {line["configuration"] for line in scored}
    assert shared == {"plain"}


def test_it_goes_on_where_it_was_and_refuses_a_folder_in_use(answer, words, folder, capsys):
    before = (folder / "out" / "runs.part.jsonl").read_bytes()
    assert main([*map(str, words), "--resume"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [p["measured"] for p in again["points"]] == [p["measured"] for p in answer["points"]]
    assert (folder / "out" / "runs.part.jsonl").read_bytes() == before
    assert main([str(word) for word in words]) == 2
    assert "resume" in capsys.readouterr().err


def test_a_budget_without_runs_is_said(answer, tiny_folder, folder):
    options = OwnLoopOptions(
        bench=BenchOptions(out=folder / "none", rounds=4, budget_s=0.001),
        profile="cpu-generic",
        model_file=tiny_folder,
        prompts=folder / "prompts.toml",
        fidelity="calibrated",
        contexts=(0,),
        fitted_contexts=(120,),
        drafters=("prompt-lookup",),
        max_new_tokens=8,
    )
    with pytest.raises(InputError, match="no undisturbed run to fit"):
        validate_own_loop(options)


def test_runs_that_meet_calibrated_passes_are_not_scored():
    cell = PromptCell(phase="score", kind="k", context=0, batch=1, prompts=("a",))

    def run(context):
        return Run(
            cell=cell.name,
            configuration="plain",
            round=0,
            prompts=("a",),
            tokens=1,
            steps=1,
            request_steps=1,
            drafted_tokens=0,
            decode_s=1.0,
            cpu_s=1.0,
            draft_s=0.0,
            verify_s=1.0,
            output_sha256="",
            passes=(TimedPass(1, 1, context, 1.0),),
        )

    with pytest.raises(UnscoredError, match="batch 1, context 20"):
        check_uncalibrated([run(20)], {(1, 20)})
    check_uncalibrated([run(21)], {(1, 20)})
