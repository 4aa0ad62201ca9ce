"""Runs give the plain text whoever drafts, are made once each, and add up to honest speeds."""

import os
import signal
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.campaigns.campaign import run_campaign
from real_runs.campaigns.decode_runs import RequestDecoder, run_decode
from real_runs.campaigns.decode_summary import speeds
from real_runs.campaigns.decode_table import DecodeRun, DecodeTable, read_decode, write_decode
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.results import read_runs

PROMPTS = 'title = "two"\n' + "".join(
    f'[[prompts]]\nid = "{kind}-{n}"\nkind = "{kind}"\ntext = "{text * n}"\n'
    for kind, text in (("a", "one two "), ("b", "xyzzy "))
    for n in (2, 3)
)
FIT = {
    "fit_answers": 0,
    "fit_characters": 2000,
    "exit_layer": 1,
    "head_rows": 8,
    "head_row_tokens": 24,
}
TREE = {"parents": [-1, 0, 0, 1], "ranks": [0, 0, 1, 0]}
ALL = [
    {"name": "lookup", "drafter": "prompt-lookup", "draft_tokens": 3},
    {"name": "suffix", "drafter": "suffix-automaton", "draft_tokens": 4},
    {"name": "recycling", "drafter": "token-recycling", "tree": TREE},
    {"name": "exit", "drafter": "early-exit", "draft_tokens": 2},
    {"name": "exit-tree", "drafter": "early-exit", "tree": TREE},
    {"name": "exit-paying", "drafter": "early-exit", "draft_tokens": 3, "stop": "cost"},
    {"name": "exit-outcomes", "drafter": "early-exit", "draft_tokens": 2, "fan_out": 2},
    {
        "name": "exit-outcomes-waiting",
        "drafter": "early-exit",
        "draft_tokens": 2,
        "fan_out": 2,
        "on_miss": "wait",
    },
    {"name": "skip", "drafter": "layer-skip", "draft_tokens": 2},
    {"name": "skip-tree", "drafter": "layer-skip", "tree": TREE},
]
HEADS = [
    {
        "name": f"{name}{'-tree' if tree else ''}",
        "drafter": name,
        **({"tree": TREE} if tree else {"draft_tokens": 2}),
    }
    for name in ("feature-head", "medusa-heads", "draft-model")
    for tree in (False, True)
]


@pytest.fixture
def campaign(tiny_folder, tmp_path):
    (tmp_path / "prompts.toml").write_text(PROMPTS)

    def made(configurations, **changes):
        job = {
            "name": "d",
            "kind": "decode",
            "estimate_s": 9,
            "model_file": str(tiny_folder),
            "rounds": 2,
            "prompts": str(tmp_path / "prompts.toml"),
            "max_new_tokens": 16,
            "drafter_options": FIT,
            "configurations": configurations,
        } | changes
        return Campaign.model_validate({"schema": 1, "threads": 1, "jobs": [job]})

    return made


def made_by(campaign, folder, **options):
    return run_decode(
        campaign.jobs[0], campaign, folder=folder, **{"deadline": time.monotonic() + 99} | options
    )


@pytest.mark.heavy
@pytest.mark.parametrize("configurations", [ALL, HEADS], ids=["without training", "trained"])
def test_every_drafter_gives_the_plain_text(campaign, tmp_path, configurations):
    fit = FIT | {"head_steps": 12}
    report = made_by(
        campaign(configurations, rounds=1, max_new_tokens=12, drafter_options=fit),
        tmp_path / "work",
    )
    runs = report.table.runs
    assert report.missing == 0 and len(runs) == 4 * (1 + len(configurations))
    texts = {}
    for run in runs:
        texts.setdefault(run.prompt, set()).add(run.output_sha256)
        assert run.steps <= run.tokens - 1 and 0 < run.prefill_s < run.wall_s
        assert (run.draft_s > 0) == (run.configuration != "plain")
    assert all(len(each) == 1 for each in texts.values()), texts
    found = speeds(report.table, generator=np.random.default_rng(1))
    assert {each.differing for each in found} == {0}
    assert all(each.tokens_per_step == 1.0 for each in found if each.configuration == "plain")
    assert any(each.tokens_per_step > 1.0 for each in found)


DYNAMIC = [
    {
        "name": f"exit-{order}",
        "drafter": "early-exit",
        "dynamic_tree": {"order": order, "draft_tokens": 5, "depth": 3},
    }
    for order in ("best-first", "levels", "beam")
]
DRAWN = [
    {"name": rule, "drafter": "early-exit", "verifier": rule, **shape}
    for rule, shape in (
        ("token_rejection", {"draft_tokens": 2}),
        ("block", {"draft_tokens": 3}),
        ("without_replacement", {"tree": TREE}),
        ("typical", {"tree": TREE}),
    )
]


def test_trees_that_change_from_step_to_step_give_the_plain_text(campaign, tmp_path):
    runs = made_by(campaign(DYNAMIC, rounds=1, max_new_tokens=12), tmp_path / "work").table.runs
    texts = {}
    for run in runs:
        texts.setdefault(run.prompt, set()).add(run.output_sha256)
        assert run.drafted_tokens <= 5 * run.steps
    assert all(len(each) == 1 for each in texts.values()), texts


def test_drafts_that_are_drawn_are_judged_by_the_named_rule(campaign, tmp_path):
    asked = campaign(DRAWN, rounds=1, temperature=0.8)
    runs = made_by(asked, tmp_path / "work").table.runs
    assert len(runs) == 4 * (1 + len(DRAWN))
    again = made_by(asked, tmp_path / "again").table.runs
    assert [run.output_sha256 for run in runs] == [run.output_sha256 for run in again], (
        "draws belong to seed and prompt"
    )
    greedy = made_by(campaign(DRAWN[:3], rounds=1), tmp_path / "greedy").table.runs
    assert all(
        len({run.output_sha256 for run in greedy if run.prompt == each.prompt}) == 1
        for each in greedy
    )


@pytest.mark.parametrize(
    ("configuration", "rule"),
    [
        (
            {"name": "x", "drafter": "prompt-lookup", "draft_tokens": 2, "verifier": "block"},
            "no network",
        ),
        ({"name": "x", "drafter": "early-exit", "draft_tokens": 2, "verifier": "coin"}, "coin"),
    ],
)
def test_rules_that_a_drafter_cannot_serve_are_refused(campaign, tmp_path, configuration, rule):
    with pytest.raises(InputError, match=rule):
        made_by(campaign([configuration]), tmp_path / "work")


@pytest.mark.parametrize(
    "configuration",
    [
        {"name": "x", "drafter": "early-exit", "draft_tokens": 2, "tree": TREE},
        {"name": "x", "drafter": "early-exit", "dynamic_tree": {}, "verifier": "block"},
        {
            "name": "x",
            "drafter": "early-exit",
            "dynamic_tree": {"order": "best-first", "least_gain": 0.1},
        },
    ],
)
def test_shapes_that_do_not_go_together_are_refused(campaign, configuration):
    with pytest.raises(ValueError, match="configuration"):
        campaign([configuration])


def test_configurations_take_turns_at_coming_first(campaign, tmp_path):
    runs = made_by(campaign(ALL[:2]), tmp_path / "work").table.runs
    first = [run.configuration for run in runs if run.order == 0]
    assert len(set(first)) == 3
    assert {run.round for run in runs} == {0, 1}


@pytest.fixture
def decoded(monkeypatch):
    """Called with a function: it is called before every whole run; returns the names of all
    runs."""
    names, real = [], RequestDecoder.run

    def watch(before=lambda runs: None):
        def run(self, configuration, prompts):
            before(len(names))
            names.append(configuration.name)
            return real(self, configuration, prompts)

        monkeypatch.setattr(RequestDecoder, "run", run)
        return names

    return watch


def test_what_was_run_is_not_run_again(campaign, tmp_path, decoded):
    asked = campaign(ALL[:2])
    whole = made_by(asked, tmp_path / "whole").table.runs
    stops = iter([False] * 8 + [True] * 99)
    cut = made_by(asked, tmp_path / "work", should_stop=lambda: next(stops))
    assert cut.missing == len(whole) - len(cut.table.runs) > 0
    assert made_by(asked, tmp_path / "work", deadline=time.monotonic() - 1).missing == cut.missing
    names = decoded()
    rest = made_by(asked, tmp_path / "work")
    assert len(names) == cut.missing
    untimed = {
        "wall_s": 1.0,
        "cpu_s": 1.0,
        "prefill_s": 1.0,
        "draft_s": 0.0,
        "verify_s": 0.0,
        "rest_s": 0.0,
    }
    assert [replace(r, **untimed) for r in rest.table.runs] == [
        replace(r, **untimed) for r in whole
    ]


def test_a_stopped_campaign_keeps_its_runs_and_goes_on(campaign, tmp_path, decoded):
    (tmp_path / "c.yaml").write_text(
        yaml.safe_dump(campaign(ALL[:2]).model_dump(by_alias=True, mode="json"))
    )

    def stop_in_the_fourth(runs):
        if runs == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    def one_call():
        report = run_campaign(
            tmp_path / "c.yaml", budget_s=200, out=tmp_path / "out", resume=True, isolate=False
        )
        return report.outcomes[0], sorted(path.name for path in (tmp_path / "out").iterdir())

    names = decoded(stop_in_the_fourth)
    outcome, files = one_call()
    assert (outcome.state, outcome.rows, outcome.reason) == ("stopped", 4, "20 runs left")
    assert files == ["decode.parquet", "summary.json", "unfinished.zip"]
    outcome, files = one_call()
    assert (outcome.state, outcome.rows, len(names)) == ("finished", 24, 4 + 20)
    assert files == ["decode.parquet", "summary.json"]
    assert len(read_runs(tmp_path / "out").runs) == 24
    assert one_call()[0].resumed


def test_runs_of_another_setup_are_not_gone_on_with(campaign, tmp_path):
    made_by(campaign(ALL[:1]), tmp_path / "work", should_stop=lambda: True)
    with pytest.raises(InputError, match="was begun with") as caught:
        made_by(campaign(ALL[:2]), tmp_path / "work")
    assert caught.value.key == "job"


def test_what_cannot_be_drafted_is_refused(campaign, tmp_path):
    with pytest.raises(InputError, match="chains alone"):
        made_by(campaign([{"name": "x", "drafter": "prompt-lookup", "tree": TREE}]), tmp_path / "a")
    with pytest.raises(InputError, match="trees alone"):
        made_by(
            campaign([{"name": "x", "drafter": "token-recycling", "draft_tokens": 2}]),
            tmp_path / "b",
        )
    with pytest.raises(UnknownNameError, match="prompt-lookup"):
        made_by(
            campaign([{"name": "x", "drafter": "prompt-lookupp", "draft_tokens": 2}]),
            tmp_path / "c",
        )
    with pytest.raises(InputError, match="kinds"):
        made_by(campaign(ALL[:1], kinds=["c"]), tmp_path / "d")


RUN = DecodeRun(
    job="d",
    configuration="plain",
    prompt="p0",
    kind="a",
    round=0,
    prompt_tokens=5,
    tokens=11,
    steps=10,
    ended="eos",
    output_sha256="x",
    wall_s=1.1,
    cpu_s=1.1,
    prefill_s=0.1,
    verify_s=1.0,
)


def table(*runs):
    return DecodeTable(runs=runs, provenance={"d": {"device_type": "cpu"}})


def fast(run, seconds, **changes):
    shape = {"configuration": "k", "drafter": "x", "draft_tokens": 2, "steps": 5, "verify_s": 0.0}
    return replace(run, **{"wall_s": 0.1 + seconds, "cpu_s": 0.1 + seconds} | shape | changes)


def test_speedup_is_the_median_of_prompts_and_of_their_rounds():
    runs = []
    for prompt, halves in enumerate([(0.5, 0.5, 0.25), (0.2, 0.2, 0.2), (1.0, 2.0, 1.0)]):
        for turn, seconds in enumerate(halves):
            plain = replace(RUN, prompt=f"p{prompt}", round=turn)
            runs += [plain, fast(plain, seconds)]
    _, _, every, kind = speeds(table(*runs), generator=np.random.default_rng(0))
    assert (every.kind, kind.kind, every.prompts, every.runs) == ("all", "a", 3, 9)
    assert every.speedup == pytest.approx(2.0)  # of 2, 5 and 1
    assert every.speedup_interval[0] <= 2.0 <= every.speedup_interval[1]
    assert every.tokens_per_s == pytest.approx(20.0)
    assert every.tokens_per_step == 2.0
    assert every.request_speedup == pytest.approx(1.1 / 0.6)


def test_disturbed_and_differing_runs_are_counted():
    quiet = [replace(RUN, prompt="p1"), fast(replace(RUN, prompt="p1"), 0.5)]
    disturbed = [RUN, fast(RUN, 0.5, cpu_s=0.2)]
    differing = [
        replace(RUN, prompt="p2"),
        fast(replace(RUN, prompt="p2"), 0.25, output_sha256="y"),
    ]
    found = speeds(table(*quiet, *disturbed, *differing), generator=np.random.default_rng(0))
    drafted = next(each for each in found if (each.configuration, each.kind) == ("k", "all"))
    assert (drafted.disturbed, drafted.differing, drafted.prompts, drafted.runs) == (1, 1, 2, 2)
    alone = speeds(table(*disturbed), generator=np.random.default_rng(0))[-1]
    assert alone.speedup is None and alone.speedup_interval is None and alone.prompts == 0


def test_runs_come_back_from_their_file(tmp_path):
    write_decode(table(RUN, fast(RUN, 0.5)), tmp_path / "d.parquet")
    assert read_decode(tmp_path / "d.parquet") == table(RUN, fast(RUN, 0.5))
    whole = (tmp_path / "d.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="Parquet"):
        read_decode(tmp_path / "cut.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(InputError, match="rooftree"):
        read_decode(tmp_path / "foreign.parquet")
    damaged = pq.read_table(tmp_path / "d.parquet")
    pq.write_table(damaged.slice(1), tmp_path / "short.parquet")
    with pytest.raises(InputError, match="contradicts"):
        read_decode(tmp_path / "short.parquet")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"tokens": 0}, "steps"),
        ({"steps": 11}, "steps"),
        ({"wall_s": 0.5}, "wall_s"),
        ({"prefill_s": 0.0}, "wall_s"),
        ({"cpu_s": float("nan")}, "cpu_s"),
        ({"round": -1}, "round"),
        ({"draft_s": 0.5}, "wall_s"),
    ],
)
def test_impossible_runs_are_refused(change, key):
    with pytest.raises(InputError) as caught:
        replace(RUN, **change)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"tree": TREE, "stop": "cost"}, "of a chain of draft_tokens"),
        ({"tree": TREE, "fan_out": 2}, "of a chain of draft_tokens"),
        ({"draft_tokens": 2, "stop": "cost", "fan_out": 2}, "one of stop, fan_out and verifier"),
    ],
)
def test_stops_and_outcomes_are_of_chains(campaign, changes, rule):
    with pytest.raises(ValueError, match=rule):
        campaign([{"name": "x", "drafter": "early-exit", **changes}])


def test_widths_are_chosen_for_drafters_that_say_how_sure_they_are(campaign, tmp_path):
    lookup = {"name": "x", "drafter": "prompt-lookup", "draft_tokens": 2, "stop": "cost"}
    with pytest.raises(InputError, match="sure"):
        made_by(campaign([lookup]), tmp_path / "work")
