"""What `optimize` explains below its table: ties, intervals to one side, and a schedule that
differs from it."""

import json
import re
import shlex

from app.answers.numbers import LOPSIDED, lopsided

PUBLISHED = ("optimize", "--model", "llama-3.1-8b", "--method", "eagle-3")
WORDS = (*PUBLISHED, "--acceptance", "0.78,0.6,0.47,0.36,0.28,0.21,0.15")


def test_every_batch_where_schedule_and_table_differ_is_said_with_its_cost(rooftree, tmp_path):
    body = rooftree(*PUBLISHED, "--out", tmp_path, "--json").answer
    shown = " ".join(rooftree(*PUBLISHED, "--out", tmp_path, "--explain").out.split())
    said = {
        int(batch.replace(",", "")): (int(k), int(best), float(loss))
        for k, best, batch, loss in re.findall(
            r"K=(\d+) instead of (\d+) at batch ([\d,]+) \(([\d.]+) % slower\)", shown
        )
    }
    differing = {}
    for choice in body["choices"]:
        (k,) = (k for low, high, k in body["schedule"] if low <= choice["batch"] <= high)
        if k != choice["draft_tokens"]:
            differing[choice["batch"]] = (k, choice["draft_tokens"])
    assert differing and {batch: pair[:2] for batch, pair in said.items()} == differing
    for batch, (k, _, loss) in said.items():
        words = ("predict", *PUBLISHED[1:], "--batch", batch, "--draft-tokens", k, "--json")
        slower = rooftree(*words).answer["predictions"][0]["tokens_per_s"]
        best = next(c["tokens_per_s"] for c in body["choices"] if c["batch"] == batch)
        assert round(100 * (1 - slower / best), 1) == loss
        assert (
            loss <= round(100 * body["schedules"][0]["schedule_worst_loss_ratio"], 1) <= 5.0
        )  # within an interval


def test_rivals_that_were_measured_on_other_texts_are_named(rooftree, tmp_path):
    words = ("optimize", "--model", "llama-3.1-8b", "--batch", "8", "--out", tmp_path)
    said = "measured on other texts, so that what they lose is rough: "
    shown = " ".join(rooftree(*words).out.split())
    assert f"{said}llama-3.2-1b (UltraChat), n-gram (ShareGPT)" in shown
    for alone in (("--drafter", "eagle-3"), ("--drafter", "eagle-3:0.7", "--drafter", "n-gram")):
        assert said not in " ".join(rooftree(*words, *alone).out.split())


def test_a_shorter_draft_that_ties_is_said_to_be_simpler(rooftree, tmp_path):
    words = (*WORDS, "--batch", "1,64", "--out", tmp_path)
    cells, shown = (
        rooftree(*words, "--json").answer["cells"],
        " ".join(rooftree(*words).out.split()),
    )
    (tied, *_) = [each for each in cells if each["tie"]]
    assert (
        tied["tie"]["draft_tokens"] < tied["winner"]["draft_tokens"]
        and 0 <= tied["tie"]["lost_ratio"] < 0.01
    )
    assert all(each["recorded"] is None for each in cells), "stated rates were counted on nothing"
    said = f"simpler, and slower by at most 1 %: {tied['tie']['draft']} at batch {tied['batch']}"
    assert said in shown


def test_whether_a_recording_is_long_enough_is_said(rooftree, tmp_path):
    words = (
        "optimize",
        "--trace",
        "smollm2-135m--prompt-lookup--t0.8",
        "--model",
        "llama-3.1-8b",
        "--batch",
        "1,64",
    )
    (*_, last) = cells = rooftree(*words, "--out", tmp_path, "--json").answer["cells"]
    assert all(each["recorded"]["tokens"] == 5454 for each in cells)
    assert last["recorded"]["enough"] == (last["recorded"]["loss_ratio"] <= 0.01)
    shown = " ".join(rooftree(*words, "--out", tmp_path).out.split())
    assert ("recorded tokens are enough" in shown) == all(
        each["recorded"]["enough"] for each in cells
    )
    assert "recorded tokens are" in shown


def test_a_tie_is_called_one(rooftree, tmp_path):
    words = (
        "optimize",
        "--model",
        "llama-3.1-8b",
        "--batch",
        "1,8",
        "--draft-tokens",
        "3",
        "--out",
        tmp_path,
    )
    drafters = ("--drafter", "eagle-3:0.700,0.5,0.3", "--drafter")
    tied = rooftree(*words, *drafters, "eagle-3:0.701,0.5,0.3").out
    assert "a tie at batch 1, 8: the next best loses less than 1 %" in " ".join(tied.split())
    assert "a tie at batch" not in rooftree(*words, *drafters, "eagle-3:0.9,0.8,0.6").out


def test_an_interval_to_one_side_is_explained(rooftree, tmp_path):
    for device in ("h100-sxm", "l4"):
        words = (
            "--model",
            "llama-3.1-8b",
            "--device",
            device,
            "--batch",
            "1",
            "--draft-tokens",
            "3",
        )
        answer = rooftree("predict", *words, *WORDS[3:], "--json").answer["predictions"][0]
        told = " ".join(rooftree("predict", *words, *WORDS[3:]).out.split())
        assert (LOPSIDED in told) == lopsided(
            answer["tokens_per_s"], answer["tokens_per_s_interval"]
        )


def test_one_schedule_for_all_contexts_is_said_with_what_it_loses_at_each(rooftree, tmp_path):
    words = (
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle-3",
        "--batch",
        "1,8,16,32,64,128",
        "--out",
        tmp_path,
    )
    done = rooftree("optimize", *words, "--context", "1024,16384,60000")
    body = json.loads((tmp_path / "recommendation.json").read_text())
    [shared] = body["context_schedules"]
    assert [at["context"] for at in shared["contexts"]] == [1024, 16384, 60000]
    assert all(
        at["own_schedule_loss_ratio"] <= at["loss_ratio"] + 0.005 for at in shared["contexts"]
    )
    assert max(at["loss_ratio"] for at in shared["contexts"]) > 0
    assert (
        shared["configuration"]["schedule"] == shared["schedule"]
        and shared["configuration"]["context"] is None
    )
    [line] = re.findall(
        r"one schedule of eagle-3 for all contexts.*?\)", " ".join(done.out.split())
    )
    mean = sum(at["loss_ratio"] for at in shared["contexts"]) / 3
    assert f"({100 * mean:.1f} % slower on average" in line
    assert "Contexts together" in next(tmp_path.glob("*.html")).read_text()
    alone = rooftree("optimize", *words, "--context", "1024", "--json").answer
    assert alone["context_schedules"] == []


def test_a_steady_batch_says_so_and_its_command_shows_what_users_see_of_a_load(rooftree, tmp_path):
    words = ("--model", "llama-3.1-8b", "--dtype", "fp8", "--tp", "2", "--drafter")
    out = tmp_path / "an answer"
    steady = rooftree("optimize", *words, "eagle-3:0.7,0.5,0.4", "--batch", "4", "--out", out)
    lines = steady.out.splitlines()
    assert "full batches; " in steady.out
    (command,) = [line for line in lines if line.startswith("under a load: ")]
    verb, *options = shlex.split(command.partition(": ")[2])[1:]
    served = rooftree(verb, *options)
    assert served.code == 0, served.err
    (title,) = [line for line in lines if line.endswith(": what to run at each batch")]
    where = title.partition(": what")[0]
    assert served.out.splitlines()[0].startswith(f"{where}, eagle-3")
    assert "autoregressive" in served.out and served.out.splitlines()[0].endswith("4 users")
    alone = ("--batch", "4", "--out", tmp_path / "a.json", "--explain")
    assert "`rooftree simulate`" in rooftree("optimize", *words, "eagle-3:0.7,0.5,0.4", *alone).out


def test_a_drafter_that_memory_never_holds_leaves_plain_decoding(rooftree, tmp_path):
    """One token a pass fits, and no schedule of chains does, as it keeps the drafter loaded."""
    words = (
        "optimize --model glm-4.5-air --device h100-sxm --dtype fp4 --kv-dtype fp8 --context 1024"
        " --method blockwise-parallel-decoding --acceptance 0.45 --batch 31 --draft-tokens 4"
    )
    answer = rooftree(*words.split(), "--tree-nodes", "0", "--out", tmp_path, "--json").answer
    (choice,) = answer["choices"]
    assert choice["topology"] == "off" and not answer["schedules"]
