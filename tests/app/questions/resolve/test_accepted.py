"""Acceptance from what people have: one meaning of every form in every verb."""

import json

import numpy as np
import pytest

from costmodel.laws.acceptance.decay import usual_ratio
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.summary import Summary
from traces.storage.acceptance_file import write_acceptance

MODEL = ("--model", "llama-3.1-8b", "--engine", "none")
RATES = (0.78, 0.61, 0.48)
WRITTEN = "0.78,0.61,0.48"
EMITTED = 1 + sum(RATES)
VERBS = {
    "optimize": ("--batch", "1", "--tree-nodes", "0"),
    "predict": ("--batch", "1"),
    "breakeven": ("--batch", "1"),
    "capacity": ("--rate", "2", "--prompt", "512", "--output", "128"),
}


@pytest.fixture(scope="module")
def counters(tmp_path_factory):
    """What an engine counted: rates by position, no positions of a text."""
    path = tmp_path_factory.mktemp("counters") / "eagle.parquet"
    summary = Summary(
        acceptance_by_depth=RATES, drafts=1000, draft_tokens=3000, accepted_tokens=1870
    )
    write_acceptance(
        AcceptanceTrace(
            provenance=Provenance(model="llama-3.1-8b", method="eagle-3"), summary=summary
        ),
        path,
    )
    return path


@pytest.fixture
def ask(rooftree, tmp_path):
    def ask(verb, *words):
        return rooftree(verb, *MODEL, *VERBS[verb], *words, "--out", tmp_path, "--json").answer

    return ask


def speeds(verb, answer, draft_tokens=3):
    """Whatever a verb answers of one draft length, as numbers."""
    if verb == "optimize":
        return [p["tokens_per_step"] for p in answer["curves"] if p["draft_tokens"] == draft_tokens]
    if verb == "predict":
        return [
            r["tokens_per_s"] for r in answer["predictions"] if r["draft_tokens"] == draft_tokens
        ]
    if verb == "breakeven":
        return [p["tokens_per_step"] for p in answer["points"] if p["draft_tokens"] == draft_tokens]
    return [p["tpot_s"] for p in answer["plans"] if p["method"] == "eagle-3"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_form_of_the_same_rates_is_one_answer(ask, counters, verb):
    forms = [
        ("--method", "eagle-3", "--acceptance", WRITTEN),
        ("--drafter", f"eagle-3:{WRITTEN}"),
        ("--trace", counters),
        ("--drafter", f"eagle-3:{counters}"),
        ("--method", "eagle-3", "--tokens-per-step", str(EMITTED)),
        ("--drafter", f"eagle-3:length={EMITTED}@3"),
    ]
    found = [speeds(verb, ask(verb, *form, "--draft-tokens", "3")) for form in forms]
    assert len(found[0]) == 1
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize("verb", ["predict", "breakeven", "capacity"])
def test_answers_say_where_acceptance_comes_from(ask, rooftree, counters, verb):
    known = ask(verb, "--drafter", f"eagle-3:{WRITTEN}")["acceptance"]
    assert (known["kind"], known["rates"], known["interval_covers"]) == (
        "stated",
        list(RATES),
        "cost model alone",
    )
    counted = ask(verb, "--trace", counters)["acceptance"]
    assert (counted["kind"], counted["source"], counted["borrowed"]) == (
        "counted",
        str(counters),
        False,
    )
    published = ask(verb, "--drafter", "eagle-3")["acceptance"]
    assert published["kind"] == "published" and "published" in published["label"]
    said = rooftree(verb, *MODEL, *VERBS[verb], "--drafter", f"eagle-3:{WRITTEN}").out
    assert (
        "acceptance stated: rates 0.78, 0.61, 0.48 by position; intervals cover the cost model"
        " alone" in said
    )


def further(tokens):
    """Rates beyond the three written ones, each token kept less often than the one before as
    published heads are."""
    kept = [RATES[2] / RATES[1] * usual_ratio("head", 3) ** place for place in range(1, tokens + 1)]
    return (RATES[2] * np.cumprod(kept)).tolist()


def test_lengths_stay_within_what_is_known_unless_asked_for(ask):
    words = ("--drafter", f"eagle-3:{WRITTEN}")
    assert [r["draft_tokens"] for r in ask("predict", *words)["predictions"]] == [0, 3]
    asked = ask("predict", *words, "--draft-tokens", "2,3,6")["predictions"]
    assert [bool(r["remark"]) for r in asked] == [False, False, True] and "known to K=3" in asked[
        2
    ]["remark"]
    assert asked[2]["tokens_per_step"] == pytest.approx(EMITTED + sum(further(3)))
    assert [p["draft_tokens"] for p in ask("breakeven", *words)["points"]] == [3]
    single = ("--drafter", "eagle-3:0.9,0.8")
    assert [p["draft_tokens"] for p in ask("breakeven", *single)["points"]] == [2], (
        "not the usual 3"
    )


def test_no_draft_needs_no_acceptance(rooftree):
    (row,) = rooftree("predict", *MODEL, "--batch", "1", "--draft-tokens", "0", "--json").answer[
        "predictions"
    ]
    assert (row["draft_tokens"], row["speedup"], row["tokens_per_step"]) == (0, 1.0, 1.0)
    stated = ("--method", "eagle-3", "--acceptance", "0.5")
    (same,) = rooftree(
        "predict", *MODEL, "--batch", "1", "--draft-tokens", "0", *stated, "--json"
    ).answer["predictions"]
    assert same["tokens_per_s"] == row["tokens_per_s"]


def test_several_drafters_compete_in_optimize_alone(ask, rooftree, files):
    named = (
        "--drafter",
        f"eagle-3:{WRITTEN}",
        "--drafter",
        "mtp:0.6",
        "--drafter",
        f"n-gram:{files.lookup}",
    )
    answer = ask("optimize", *named)
    assert [d["name"] for d in answer["drafters"]] == ["eagle-3", "mtp", "n-gram"]
    assert [d["acceptance"]["kind"] for d in answer["drafters"]] == ["stated", "stated", "recorded"]
    (cell,) = answer["cells"]
    assert cell["winner"]["drafter"] == "eagle-3" == answer["choices"][0]["drafter"]
    assert cell["runner_up"]["drafter"] in ("mtp", "n-gram", None) and 0 <= cell["lost_ratio"] < 1
    assert cell["winner"]["acceptance"]["source"] == "rates 0.78, 0.61, 0.48 by position"
    for verb in ("predict", "breakeven", "capacity"):
        done = rooftree(verb, *MODEL, *VERBS[verb], *named)
        assert done.code == 2 and "one drafter is taken here" in done.err


def test_a_recommendation_of_stated_acceptance_is_predicted_alike(ask, rooftree, tmp_path):
    for drafter in (
        f"eagle-3:{WRITTEN}",
        "eagle-3:0.72",
        "eagle-3:length=2.4@3",
        "eagle-2:length=4",
        "eagle-3",
    ):
        choice = ask("optimize", "--drafter", drafter)["choices"][0]
        path = tmp_path / "recommendation.json"
        (row,) = rooftree("predict", "--config", path, "--batch", "1", "--json").answer[
            "predictions"
        ]
        assert row["draft_tokens"] == choice["draft_tokens"] > 0
        assert row["tokens_per_s"] == pytest.approx(choice["tokens_per_s"], rel=1e-9), drafter
        if choice["topology"] != "chain":
            continue
        over = rooftree(
            "predict", "--config", path, "--batch", "1", "--acceptance", "0.1", "--json"
        ).answer
        assert over["inputs"]["method"] == choice["method"] and over["acceptance"]["rates"] == [0.1]


def test_a_tree_takes_rates_of_first_candidates_or_its_own_tokens(rooftree, tmp_path):
    shape = tmp_path / "tree.json"
    shape.write_text(
        json.dumps({"parents": [-1, 0, 0, 1], "ranks": [0, 0, 1, 0], "root_included": True})
    )
    words = ("predict", *MODEL, "--batch", "1", "--method", "medusa", "--tree", shape)
    (one,) = rooftree(*words, "--acceptance", "0.5", "--json").answer["predictions"]
    assert (
        one["tokens_per_step"] == pytest.approx(1 + 0.5 + 0.25 + 0.125)
        and "tried in turn" in one["remark"]
    )
    (own,) = rooftree(*words, "--tokens-per-step", "2.2", "--json").answer["predictions"]
    assert own["tokens_per_step"] == 2.2
    (falling,) = rooftree(*words, "--acceptance", "0.5,0.3", "--json").answer["predictions"]
    assert falling["tokens_per_step"] == pytest.approx(1 + 0.5 + 0.125 + 0.3)


def test_the_best_tree_of_stated_rates_is_predicted_alike(rooftree, counters, tmp_path):
    """Chains are trees: of rates by position the best tree emits at least what a chain of as many
    tokens does."""
    words = ("tree", "--nodes", "4,8", "--depth", "4", "--json")
    forms = [
        ("--acceptance", WRITTEN),
        ("--drafter", f"medusa:{WRITTEN}"),
        ("--acceptance", counters),
    ]
    found = [rooftree(*words, *form, "--out", tmp_path).answer for form in forms]
    assert found[1]["trees"] == found[0]["trees"] == found[2]["trees"]
    assert "tried in turn" in found[0]["remark"] and found[0]["inputs"]["acceptance"] == list(RATES)
    assert found[0]["trees"][0]["tokens_per_step"] >= EMITTED
    for row in found[0]["trees"]:
        asked = (
            "predict",
            *MODEL,
            "--batch",
            "1",
            "--tree",
            tmp_path / f"tree-{row['nodes']}.json",
        )
        stated = ("--method", "medusa", "--acceptance", WRITTEN)
        (priced,) = rooftree(*asked, *stated, "--json").answer["predictions"]
        assert priced["tokens_per_step"] == pytest.approx(row["tokens_per_step"], rel=1e-9)
    mean = rooftree(
        "tree", "--tokens-per-step", "2.4", "--nodes", "4", "--depth", "4", "--json"
    ).answer
    assert mean["trees"][0]["tokens_per_step"] >= 2.4 and mean["inputs"]["tokens_per_step"] == 2.4
    assert rooftree("tree", "--drafter", "eagle-3:length=4", "--depth", "1").code == 2


SYNTHETIC = (
    "export",
    "vllm",
    "--model",
    "llama-3.1-8b",
    "--draft-tokens",
    "4",
    "--synthetic",
    "--json",
)


@pytest.mark.parametrize(
    ("words", "rates"),
    [
        (("--drafter", f"eagle-3:{WRITTEN}"), [*RATES, *further(1)]),
        (("--method", "eagle-3", "--acceptance", "0.5"), [0.5, 0.25, 0.125, 0.0625]),
        (("--method", "eagle-3", "--tokens-per-step", "1.9375"), [0.5, 0.25, 0.125, 0.0625]),
        (("--drafter", "eagle-3:length=1.9375@4"), [0.5, 0.25, 0.125, 0.0625]),
    ],
)
def test_an_engine_imitates_what_is_stated(rooftree, tmp_path, words, rates):
    command = rooftree(*SYNTHETIC, *words, "--out", tmp_path).answer["command"]
    written = json.loads(command.split("--speculative-config '")[1].split("'")[0])
    assert written["synthetic_acceptance_rates"] == pytest.approx(rates)


def test_an_engine_imitates_what_a_recommendation_rests_on(ask, rooftree, tmp_path, files):
    from traces.library import read_trace
    from traces.replay.statistics import acceptance_by_depth

    recorded = acceptance_by_depth(read_trace(files.lookup), 3).tolist()
    for drafter, known in (
        (f"eagle-3:{WRITTEN}", list(RATES)),
        (f"n-gram:{files.lookup}", recorded),
    ):
        ask("optimize", "--drafter", drafter, "--draft-tokens", "3")
        words = (
            "export",
            "vllm",
            "--config",
            tmp_path / "recommendation.json",
            "--synthetic",
            "--no-schedule",
        )
        done = rooftree(*words, "--out", tmp_path / "engine", "--json")
        written = json.loads(
            done.answer["command"].split("--speculative-config '")[1].split("'")[0]
        )
        assert written["synthetic_acceptance_rates"] == pytest.approx(known)
    other = rooftree(*SYNTHETIC, "--method", "eagle-3", "--drafter", "mtp:0.5")
    assert other.code == 2 and "drafts in another way than eagle-3" in other.err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--acceptance", "0.5", "--tokens-per-step", "2"),
            "--acceptance and --tokens-per-step exclude each other",
        ),
        (("--acceptance", "0.5,0.7"), "must never increase"),
        (("--acceptance", "much"), "must be one rate (0.72), or rates by position"),
        (("--acceptance", "1.5"), "--acceptance: must lie in [0, 1], got 1.5"),
        (
            ("--drafter", "eagle-3:nowhere"),
            "names no trace that exists and no data set of which its acceptance was published",
        ),
        (
            ("--drafter", "eagle-33:0.5"),
            "drafter: unknown method or draft model 'eagle-33'; nearest: eagle-3",
        ),
        (("--drafter", "eagle-3:0.5", "--method", "mtp"), "--drafter names its method itself"),
        (("--method", "eagle-3", "--tokens-per-step", "9", "--draft-tokens", "3"), "[1, 4]"),
    ],
)
def test_every_verb_refuses_alike(rooftree, verb, words, said):
    done = rooftree(verb, *MODEL, *VERBS[verb], *words)
    assert (done.code, done.err.count("\n")) == (2, 1) and said in done.err


@pytest.mark.parametrize("verb", VERBS)
def test_a_method_that_contradicts_a_trace_can_be_overridden(ask, rooftree, files, verb):
    done = rooftree(verb, *MODEL, *VERBS[verb], "--method", "eagle-3", "--trace", files.lookup)
    assert done.code == 2 and f"write --drafter eagle-3:{files.lookup}" in done.err
    assert ask(verb, "--drafter", f"eagle-3:{files.lookup}", "--draft-tokens", "3")


TRAFFIC = ("--users", "16", "--count", "200", "--prompt-tokens", "20", "--output-tokens", "200")


@pytest.fixture
def simulated(rooftree):
    def simulated(*words):
        return rooftree("simulate", *MODEL, *TRAFFIC, *words, "--json").answer

    return simulated


def test_simulated_requests_walk_along_what_is_stated(simulated, counters):
    forms = [
        ("--drafter", f"eagle-3:{WRITTEN}"),
        ("--acceptance", WRITTEN, "--set", "speculation.method=eagle-3"),
        ("--trace", counters),
        ("--drafter", f"eagle-3:{counters}"),
    ]
    found = [simulated(*form, "--draft-tokens", "3") for form in forms]
    for answer in found[1:]:
        assert answer["metrics"] == found[0]["metrics"]
    metrics = found[0]["metrics"]
    assert metrics["tokens_per_step"] == pytest.approx(EMITTED, rel=0.02)
    assert "as if steps did not depend on each other" in " ".join(found[0]["notes"])
    mean = simulated("--drafter", f"eagle-3:length={EMITTED}@3")["metrics"]
    assert mean["tokens_per_step"] == pytest.approx(EMITTED, rel=0.02)
    further = simulated("--drafter", f"eagle-3:{WRITTEN}", "--draft-tokens", "6")
    assert any("known to K=3" in note for note in further["notes"])


def test_a_simulation_without_a_draft_is_plain_decoding(simulated):
    assert simulated("--draft-tokens", "0")["metrics"] == simulated()["metrics"]


def test_a_recommendation_of_stated_acceptance_is_simulated(ask, rooftree, tmp_path):
    ask("optimize", "--drafter", f"eagle-3:{WRITTEN}")
    path = tmp_path / "recommendation.json"
    answer = rooftree("simulate", "--config", path, *TRAFFIC, "--json").answer
    assert answer["inputs"]["speculation"]["acceptance"] == list(RATES)
    assert answer["metrics"]["tokens_per_step"] == pytest.approx(EMITTED, rel=0.02)
    over = rooftree("simulate", "--config", path, *TRAFFIC, "--acceptance", "0.1", "--json").answer
    assert over["metrics"]["tokens_per_step"] == pytest.approx(1.111, rel=0.02)
    assert over["inputs"]["speculation"]["method"] == "eagle-3"


def test_what_is_missing_is_named(rooftree, tmp_path):
    words = ("optimize", *MODEL, "--batch", "1", "--out", tmp_path)
    for more, said in (
        (
            ("--acceptance", "0.7"),
            "--draft: must be named, since speculative decoding drafts with a model of its own",
        ),
        (("--method", "fast-dllm", "--tokens-per-step", "2.77"), "fast-dllm"),
        (("--drafter", "eagle-3:0.7", "--stop", "ema"), "needs a recording with positions"),
    ):
        done = rooftree(*words, *more)
        assert (done.code, done.err.count("\n")) == (2, 1) and said in done.err
