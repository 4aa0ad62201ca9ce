"""Answers that must agree with each other and with the layers below, whatever the numbers are."""

import json
from pathlib import Path

import pytest

import costmodel
import hardware_profiles
from costmodel.optimizers.trees.static_tree import optimal_values
from traces.kinds.tree import Tree, read_tree
from traces.replay.walk import replay_chain, replay_tree
from traces.storage.acceptance_file import read_acceptance

MODEL = "llama-3.2-1b"


def predict(rooftree, *words):
    """Predictions without the names of what was asked."""
    rows = rooftree("predict", "--model", MODEL, *words, "--json").answer["predictions"]
    return [
        {key: value for key, value in row.items() if key not in ("model", "device", "engine")}
        for row in rows
    ]


@pytest.mark.parametrize("source", ["ranks", "lookup", "rate"])
def test_speedup_is_tokens_per_step_times_plain_over_step(rooftree, files, source):
    known = (
        ("--method", "n-gram", "--acceptance", "0.7")
        if source == "rate"
        else ("--trace", getattr(files, source))
    )
    rows = predict(
        rooftree, *known, "--batch", "1,32", "--context", "128,2048", "--draft-tokens", "0,2,5"
    )
    plain = {(r["batch"], r["context"]): r for r in rows if r["draft_tokens"] == 0}
    for row in rows:
        baseline = plain[row["batch"], row["context"]]
        assert baseline["speedup"] == 1 and baseline["tokens_per_step"] == 1
        expected = row["tokens_per_step"] * baseline["step_s"] / row["step_s"]
        assert row["speedup"] == pytest.approx(expected)
        assert row["tokens_per_s"] == pytest.approx(
            row["batch"] * row["tokens_per_step"] / row["step_s"]
        )
        assert sum(row["breakdown_s"].values()) == pytest.approx(row["step_s"])


def test_a_stated_rate_is_the_geometric_law(rooftree):
    rows = predict(
        rooftree,
        "--method",
        "n-gram",
        "--acceptance",
        "0.6",
        "--batch",
        "1",
        "--draft-tokens",
        "1,4",
    )
    assert [r["tokens_per_step"] for r in rows] == pytest.approx([1.6, (1 - 0.6**5) / 0.4])
    rare = predict(
        rooftree,
        "--method",
        "n-gram",
        "--acceptance",
        "0.6",
        "--match-rate",
        "0.25",
        "--batch",
        "1",
        "--draft-tokens",
        "4",
    )
    assert rare[0]["tokens_per_step"] == pytest.approx(0.75 + 0.25 * (1 - 0.6**5) / 0.4)
    assert rare[0]["proposal_ratio"] == 0.25


def test_bandwidth_shortens_steps_and_price_does_not(rooftree, files):
    words = ("--trace", files.ranks, "--batch", "1,16", "--draft-tokens", "0,3")
    before = predict(rooftree, *words)
    doubled = predict(rooftree, *words, "--set", "device.bandwidth_bytes_per_s=6.7e12")
    halved = predict(rooftree, *words, "--set", "device.bandwidth_bytes_per_s=1.675e12")
    for slow, row, fast in zip(halved, before, doubled, strict=True):
        assert fast["step_s"] < row["step_s"] < slow["step_s"]
        assert slow["tokens_per_step"] == row["tokens_per_step"] == fast["tokens_per_step"]
    dear = predict(rooftree, *words, "--set", "device.price_usd_per_hour=9")
    for row, cheap in zip(dear, before, strict=True):
        assert row.pop("usd_per_million_tokens") > cheap.pop("usd_per_million_tokens")
    assert dear == before


def test_a_device_file_is_the_device_it_copies(rooftree, files, tmp_path):
    copy = tmp_path / "mine.toml"
    copy.write_text(
        (Path(hardware_profiles.__file__).parent / "data" / "h100-sxm.toml").read_text()
    )
    words = ("--trace", files.lookup, "--batch", "8", "--draft-tokens", "3")
    assert predict(rooftree, *words, "--device", copy) == predict(
        rooftree, *words, "--device", "h100-sxm"
    )


def test_a_config_json_is_the_model_it_describes(rooftree, files, tmp_path):
    import tomllib

    config = tomllib.loads(
        (Path(costmodel.__file__).parent / "architectures" / "models" / f"{MODEL}.toml").read_text()
    )["config"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    words = ("--trace", files.lookup, "--batch", "8", "--draft-tokens", "3", "--model")
    for form in (path, tmp_path):
        assert predict(rooftree, *words, form) == predict(rooftree, *words, MODEL)


def test_what_optimize_chooses_predict_prices_alike(rooftree, files, optimized, tmp_path):
    answer, _ = optimized
    sources = {drafter["method"]: drafter["file"] for drafter in answer["drafters"]}
    for choice in (*answer["choices"], *answer["alternatives"]):
        words = [
            "--trace",
            sources[choice["method"]],
            "--batch",
            choice["batch"],
            "--context",
            choice["context"],
        ]
        if choice["tree"] is not None:
            path = tmp_path / "tree.json"
            path.write_text(json.dumps(choice["tree"]))
            words += ["--tree", path]
        (row,) = predict(rooftree, *words, "--draft-tokens", choice["draft_tokens"])
        assert row["step_s"] == pytest.approx(choice["step_s"])
        assert row["draft_tokens"] == choice["draft_tokens"]
        if choice["tree"] is None:
            # trees are scored on requests that did not choose them, so only chains replay to the
            # same number
            assert row["tokens_per_step"] == choice["tokens_per_step"]
            assert row["speedup"] == pytest.approx(choice["speedup"])
            for name in ("step_s", "tokens_per_step", "tokens_per_s", "speedup"):
                assert row[f"{name}_interval"] == pytest.approx(
                    choice[f"{name}_interval"], rel=1e-9
                )


def test_the_choice_beats_every_chain_and_the_alternatives(rooftree, files, optimized):
    answer, _ = optimized
    for choice in answer["choices"]:
        place = (choice["batch"], choice["context"])
        others = [a for a in answer["alternatives"] if (a["batch"], a["context"]) == place]
        assert len(others) == 1 and others[0]["tokens_per_s"] <= choice["tokens_per_s"]
        for source in (files.ranks, files.lookup):
            words = (
                "--trace",
                source,
                "--batch",
                place[0],
                "--context",
                place[1],
                "--draft-tokens",
                "0,1,3,5",
            )
            best = max(row["tokens_per_s"] for row in predict(rooftree, *words))
            assert best <= choice["tokens_per_s"] * (1 + 1e-9)


def test_the_schedule_runs_the_fastest_chain_where_it_loses_nothing(rooftree, optimized):
    answer, _ = optimized
    sources = {drafter["method"]: drafter["file"] for drafter in answer["drafters"]}
    for found in answer["schedules"]:
        losses = []
        for batch in (1, 4, 64):
            words = (
                "--trace",
                sources[found["method"]],
                "--batch",
                batch,
                "--context",
                found["context"],
            )
            rate = {
                row["draft_tokens"]: row["tokens_per_s"]
                for row in predict(rooftree, *words, "--draft-tokens", "0,1,3,5")
            }
            (drafted,) = (k for low, high, k in found["schedule"] if low <= batch <= high)
            losses.append(1 - rate[drafted] / max(rate.values()))
        assert max(losses) <= found["schedule_worst_loss_ratio"] + 1e-12 <= 0.005 + 2e-12
        assert 0.0 <= found["schedule_loss_ratio"] <= found["schedule_worst_loss_ratio"]


@pytest.mark.parametrize("source", ["ranks", "lookup", "undrafted"])
def test_replay_is_the_exact_replay(rooftree, files, source):
    trace = read_acceptance(getattr(files, source))
    for row in rooftree(
        "replay", getattr(files, source), "--draft-tokens", "0,1,2,7", "--json"
    ).answer["chains"]:
        played = replay_chain(trace, row["draft_tokens"])
        assert (row["tokens"], row["steps"]) == (played.tokens.sum(), played.steps.sum())
        assert row["tokens_per_step"] == played.tokens_per_step
        assert row["proposal_ratio"] == (played.proposal_ratio if row["draft_tokens"] else 0)


def test_a_chain_is_the_tree_of_one_branch(rooftree, files, tmp_path):
    path = tmp_path / "chain.json"
    path.write_text(json.dumps({"parents": [-1, 0, 1, 2], "ranks": [0, 0, 0, 0]}))
    answer = rooftree("replay", files.ranks, "--draft-tokens", "3", "--tree", path, "--json").answer
    (chain,), (tree,) = answer["chains"], answer["trees"]
    assert (chain.pop("draft"), tree.pop("draft")) == ("chain:3", f"tree:{path}")
    assert {key: tree[key] for key in chain} == chain
    words = ("--trace", files.ranks, "--batch", "4", "--context", "512")
    (as_tree,) = predict(rooftree, *words, "--tree", path)
    (as_chain,) = predict(rooftree, *words, "--draft-tokens", "3")
    assert as_tree["tokens_per_step"] == as_chain["tokens_per_step"]
    assert as_tree["step_s"] == pytest.approx(as_chain["step_s"], rel=0.01)


def test_a_stated_match_rate_stands_in_for_what_was_not_recorded(rooftree, files):
    always, rare = (
        rooftree(
            "replay", files.undrafted, "--draft-tokens", "3", "--match-rate", rate, "--json"
        ).answer["chains"][0]
        for rate in ("1", "0.9")
    )
    assert always["tokens_per_step"] == rare["tokens_per_step"]
    assert (always["proposal_ratio"], rare["proposal_ratio"]) == (1, 0.9)


def test_trees_from_a_vector_reach_the_optimum(rooftree, files, tmp_path):
    vector = json.loads(files.vector.read_text())
    values = optimal_values(vector, 32, 5)
    words = ("tree", "--acceptance", files.vector, "--nodes", "1,2,8,32", "--depth", "5", "--json")
    for found in rooftree(*words).answer["trees"]:
        assert found["tokens_per_step"] == pytest.approx(values[found["nodes"], 5])
        reached = [1.0]
        for parent, rank in zip(found["parents"][1:], found["ranks"][1:], strict=True):
            reached.append(reached[parent] * vector[rank])
        assert sum(reached) == pytest.approx(found["tokens_per_step"])


def test_a_written_tree_replays_to_what_it_claims(rooftree, files, tmp_path):
    words = (
        "tree",
        "--acceptance",
        files.ranks,
        "--nodes",
        "6,12",
        "--depth",
        "5",
        "--out",
        tmp_path,
        "--json",
    )
    for found in rooftree(*words).answer["trees"]:
        path = tmp_path / f"tree-{found['nodes']}.json"
        (row,) = rooftree("replay", files.ranks, "--tree", path, "--json").answer["trees"]
        assert (
            row["tokens_per_step"]
            == found["tokens_per_step"]
            >= found["vector_tree_tokens_per_step"]
        )
        assert (
            replay_tree(read_acceptance(files.ranks), read_tree(path)).tokens_per_step
            == found["tokens_per_step"]
        )
        assert Tree.from_json(json.loads(path.read_text())).nodes == found["nodes"]


def test_trees_are_held_out_on_request(rooftree, files):
    words = ("tree", "--acceptance", files.ranks, "--nodes", "6,12", "--depth", "5", "--json")
    plain, held = (rooftree(*words, *more).answer["trees"] for more in ((), ("--held-out",)))
    for before, after in zip(plain, held, strict=True):
        scored = after.pop("held_out")
        assert before == after
        assert 1.0 < scored["tokens_per_step"] <= 5.0
        gain = scored["tokens_per_step"] / scored["vector_tree_tokens_per_step"] - 1.0
        assert scored["gain_ratio"] == pytest.approx(gain)
    assert rooftree("tree", "--acceptance", files.vector, "--nodes", "4", "--held-out").code == 2


def test_a_token_is_never_dearer_on_a_mix_than_on_one_device(rooftree):
    words = (
        "models",
        "step-3",
        "--price",
        "h100-sxm,l4",
        "--context",
        "8192",
        "--dtype",
        "fp8",
        "--json",
    )
    *single, mix = rooftree(*words).answer["prices"]
    assert mix["usd_per_million"] <= min(each["usd_per_million"] for each in single) * (1 + 1e-9)
    assert mix["usd_per_million"] == pytest.approx(
        mix["attention_usd_per_million"] + mix["feed_forward_usd_per_million"]
    )
    longer = rooftree(*words[:5], "32768", *words[6:]).answer["prices"]
    assert longer[0]["attention_usd_per_million"] > single[0]["attention_usd_per_million"]
    assert longer[0]["feed_forward_usd_per_million"] == single[0]["feed_forward_usd_per_million"]


@pytest.mark.parametrize(
    ("option", "value", "faster"),
    [("--shared-prefix", "8000", True), ("--host-weights", "0.5", False)],
)
def test_prefixes_and_weights_on_the_host_reach_both_verbs(
    rooftree, files, tmp_path, option, value, faster
):
    words = ("--batch", "64", "--context", "8192", "--draft-tokens", "3", "--json")
    plain, changed = (
        predict(rooftree, "--trace", files.lookup, *words[:-1], *more)[0]
        for more in ((), (option, value))
    )
    assert (changed["step_s"] < plain["step_s"]) == faster
    words = (
        "optimize",
        "--model",
        MODEL,
        "--trace",
        files.lookup,
        *words,
        "--quiet",
        "--out",
        tmp_path,
    )
    before, after = (rooftree(*words, *more).answer["choices"][0] for more in ((), (option, value)))
    assert (after["tokens_per_s"] > before["tokens_per_s"]) == faster


def test_prompts_dilute_a_speedup_towards_one(rooftree, files):
    rows = predict(
        rooftree,
        "--trace",
        files.lookup,
        "--batch",
        "1,16",
        "--draft-tokens",
        "0,5",
        "--include-prefill",
        "--context",
        "164",
    )
    for row in rows:
        assert (row["mean_prompt_tokens"], row["mean_output_tokens"]) == (135, 57)
        low, high = row["throughput_speedup_interval"]
        assert low <= row["throughput_speedup"] <= high
        if row["draft_tokens"] == 0:
            assert row["throughput_speedup"] == 1
        else:
            assert 1 < row["throughput_speedup"] < row["speedup"]


def test_both_speedups_are_named_where_lengths_are_stated(rooftree, files):
    words = (
        "--trace",
        files.lookup,
        "--batch",
        "1,16",
        "--draft-tokens",
        "0,5",
        "--context",
        "164",
    )
    of_trace = predict(rooftree, *words, "--include-prefill")
    assert predict(rooftree, *words, "--prompt", "135", "--output", "57") == of_trace
    assert all("throughput_speedup" not in row for row in predict(rooftree, *words))
    shown = rooftree("predict", "--model", MODEL, *words, "--prompt", "135", "--output", "57").out
    assert "speedup: of a step" in shown and "of throughput: of whole requests" in shown
    for lengths in (("--prompt", "135"), ("--output", "57")):
        done = rooftree("predict", "--model", MODEL, *words, *lengths)
        assert done.code == 2 and "go together" in done.err


def test_tensor_parallel_halves_fit_where_the_whole_does_not(rooftree):
    words = (
        "predict",
        "--model",
        "llama-3.1-70b",
        "--method",
        "n-gram",
        "--acceptance",
        "0.5",
        "--batch",
        "1",
        "--json",
    )
    assert rooftree(*words).code == 3
    assert rooftree(*words, "--tp", "4").answer["predictions"]


def test_borrowed_acceptance_is_said(rooftree, files, tmp_path):
    words = ("predict", "--trace", files.lookup, "--batch", "1", "--json", "--model")
    assert rooftree(*words, MODEL).answer["inputs"]["borrowed"] is False
    assert rooftree(*words, "qwen3-0.6b").answer["inputs"]["borrowed"] is True
    words = (
        "optimize",
        "--trace",
        files.lookup,
        "--batch",
        "1",
        "--model",
        "qwen3-0.6b",
        "--out",
        tmp_path,
        "--json",
    )
    (choice,) = rooftree(*words).answer["choices"]
    assert choice["provenance"]["acceptance"]["label"] == f"acceptance borrowed from {MODEL}"
