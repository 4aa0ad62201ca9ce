"""What every `--json` answer promises: its keys, their types, and that intervals hold their
points."""

import json
from itertools import pairwise, product
from pathlib import Path

import pytest

from traces.kinds.tree import Tree
from traces.replay.walk import replay_tree
from traces.storage.acceptance_file import read_acceptance, write_acceptance

CHOICE = {
    "batch": int,
    "context": int,
    "method": str,
    "topology": str,
    "draft_tokens": int,
    "tree": (dict, type(None)),
    "tokens_per_step": float,
    "tokens_per_step_interval": list,
    "step_s": float,
    "step_s_interval": list,
    "tokens_per_s": float,
    "tokens_per_s_interval": list,
    "speedup": float,
    "speedup_interval": list,
    "limit": str,
    "breakdown_s": dict,
    "provenance": dict,
}
PREDICTION = {
    "batch": int,
    "context": int,
    "draft_tokens": int,
    "step_s": float,
    "step_s_interval": list,
    "breakdown_s": dict,
    "tokens_per_step": float,
    "tokens_per_step_interval": list,
    "tokens_per_s": float,
    "tokens_per_s_interval": list,
    "speedup": float,
    "speedup_interval": list,
    "limit": str,
}
RUNS = Path(__file__).parents[2] / "golden" / "runs.csv"
LIMITS = {"bandwidth", "compute", "launch"}


def check(record, kinds):
    """Keys are there with their types, and every interval holds the number it belongs to."""
    for key, kind in kinds.items():
        assert isinstance(record[key], kind), key
    for key in record:
        if key.endswith("_interval"):
            low, high = record[key]
            assert low <= record[key.removesuffix("_interval")] <= high, key


def check_tree(document, draft_tokens):
    assert (
        set(document) >= {"parents", "ranks", "root_included"} and document["root_included"] is True
    )
    assert document["parents"][0] == -1 and document["ranks"][0] == 0
    tree = Tree.from_json(document)
    assert tree.draft_tokens == draft_tokens
    return tree


def check_schedule(ranges, largest):
    assert ranges[0][0] == 1 and ranges[-1][1] == largest
    assert all(low <= high and drafted >= 0 for low, high, drafted in ranges)
    assert all(
        after[0] == before[1] + 1 and after[2] != before[2] for before, after in pairwise(ranges)
    )


def words_of_every_verb(files, out):
    position = out / "position.json"
    requests = [{"prompt_tokens": 3, "emitted": [1, 3, 2, 1], "drafted": [0, 4, 4, 0]}]
    position.write_text(json.dumps({"first_step_position": 1, "requests": requests}))
    lookup = ("--batch", "1", "--draft-tokens", "3", "--out", out / "optimize")
    plain = ("--model", "llama-3.2-1b", "--method", "n-gram")
    return {
        "optimize": ("optimize", "--trace", files.lookup, *lookup),
        "predict": ("predict", *plain, "--acceptance", "0.6"),
        "replay": ("replay", files.ranks),
        "score": ("score", RUNS),
        "tree": ("tree", "--acceptance", files.vector, "--nodes", "8"),
        "import": (
            "traces",
            "import",
            position,
            "--format",
            "position-json",
            "-o",
            out / "imported.parquet",
        ),
        "inspect": ("traces", "inspect", files.ranks),
        "export": ("export", "vllm", *plain, "--draft-tokens", "3", "--out", out / "export"),
        "devices": ("devices",),
        "device": ("devices", "l4"),
        "models": ("models",),
        "model": ("models", "gpt2"),
        "methods": ("methods",),
        "method": ("methods", "n-gram"),
    }


VERBS = (
    "optimize",
    "predict",
    "replay",
    "score",
    "tree",
    "import",
    "inspect",
    "export",
    "devices",
    "device",
    "models",
    "model",
    "methods",
    "method",
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_answer_is_one_versioned_object_and_the_same_twice(rooftree, files, tmp_path, verb):
    words = (*words_of_every_verb(files, tmp_path)[verb], "--json", "--seed", "3")
    first, second = rooftree(*words), rooftree(*words)
    assert (first.code, first.err) == (0, "")
    assert first.out == second.out and first.out.count("\n") == 1
    assert first.answer["schema"] == 4 and first.answer["inputs"]
    assert "NaN" not in first.out and "Infinity" not in first.out


def test_the_verbs_listed_here_are_the_verbs_tried(files, tmp_path):
    assert set(words_of_every_verb(files, tmp_path)) == set(VERBS)


def test_optimize_answers_one_choice_per_batch_and_context(optimized):
    answer, _ = optimized
    places = [(c["batch"], c["context"]) for c in answer["choices"]]
    assert sorted(places) == sorted(product((1, 4, 64), (256, 1024)))
    for choice in (*answer["choices"], *answer["alternatives"]):
        check(choice, CHOICE)
        assert choice["topology"] in {"off", "chain", "tree"} and choice["limit"] in LIMITS
        assert (choice["topology"] == "off") == (choice["draft_tokens"] == 0)
        assert (choice["topology"] == "tree") == (choice["tree"] is not None)
        assert {"acceptance", "device", "overhead", "drafter", "fidelity"} <= set(
            choice["provenance"]
        )
        assert set(choice["breakdown_s"]) == {"draft", "verify", "overhead"}
        assert sum(choice["breakdown_s"].values()) == pytest.approx(choice["step_s"])
        if choice["tree"] is not None:
            check_tree(choice["tree"], choice["draft_tokens"])


def test_optimize_has_a_gapless_schedule_per_method_and_context(optimized):
    answer, _ = optimized
    assert {(s["method"], s["context"]) for s in answer["schedules"]} == set(
        product(("early-exit", "n-gram"), (256, 1024))
    )
    for found in (answer, *answer["schedules"]):
        check_schedule(found["schedule"], 64)
        assert 0 <= found["schedule_loss_ratio"] <= 1
    first = answer["choices"][0]
    main = next(
        s
        for s in answer["schedules"]
        if (s["method"], s["context"]) == (first["method"], first["context"])
    )
    assert answer["schedule"] == main["schedule"]


def test_optimize_names_files_that_exist_and_writes_its_answer(optimized):
    answer, folder = optimized
    assert "vllm" in answer["exports"]
    for paths in answer["exports"].values():
        assert paths and all((folder / path).is_file() for path in paths)
    assert json.loads((folder / "recommendation.json").read_text(encoding="utf-8")) == answer
    assert not [
        path for path in folder.rglob("*") if path.name.startswith(".") or path.suffix == ".part"
    ]


def test_optimize_needs_no_trace_and_no_model(rooftree, tmp_path):
    answer = rooftree(
        "optimize", "--batch", "1", "--tree-nodes", "0", "--out", tmp_path, "--json"
    ).answer
    assert answer["inputs"]["model"] == "llama-3.1-8b"
    assert len(answer["drafters"]) >= 2 and not any(each["borrowed"] for each in answer["drafters"])


def test_another_seed_moves_intervals_and_not_points(rooftree, files):
    words = (
        "predict",
        "--model",
        "llama-3.2-1b",
        "--trace",
        files.ranks,
        "--batch",
        "1",
        "--json",
        "--seed",
    )
    one, other = (rooftree(*words, seed).answer["predictions"][1] for seed in (1, 2))
    assert (
        one["speedup"] == other["speedup"] and one["speedup_interval"] != other["speedup_interval"]
    )


def test_predict_crosses_batches_contexts_and_lengths(rooftree, files):
    words = ("--batch", "8,1", "--context", "64,512,64", "--draft-tokens", "0,2,4")
    answer = rooftree(
        "predict", "--model", "llama-3.2-1b", "--trace", files.ranks, *words, "--json"
    ).answer
    rows = answer["predictions"]
    places = sorted((r["batch"], r["context"], r["draft_tokens"]) for r in rows)
    assert places == sorted(product((1, 8), (64, 512), (0, 2, 4)))
    for row in rows:
        check(row, PREDICTION)
        assert set(row["breakdown_s"]) == {"draft", "verify", "overhead"} and row["limit"] in LIMITS


def test_predict_of_a_tree_counts_its_draft_tokens(rooftree, files, tmp_path):
    path = tmp_path / "tree.json"
    path.write_text(
        json.dumps({"parents": [-1, 0, 0, 1], "ranks": [0, 0, 1, 0], "root_included": True})
    )
    words = (
        "predict",
        "--model",
        "llama-3.2-1b",
        "--trace",
        files.ranks,
        "--tree",
        path,
        "--batch",
        "1",
        "--json",
    )
    (row,) = rooftree(*words).answer["predictions"]
    check(row, PREDICTION)
    assert row["draft_tokens"] == 3


def test_replay_answers_chains_and_trees(rooftree, files, tmp_path):
    path = tmp_path / "tree.json"
    path.write_text("[[0], [1], [0, 0]]")
    answer = rooftree(
        "replay", files.ranks, "--draft-tokens", "3,0,1", "--tree", path, "--json"
    ).answer
    assert [chain["draft_tokens"] for chain in answer["chains"]] == [0, 1, 3]
    (tree,) = answer["trees"]
    for row in (*answer["chains"], tree):
        low, high = row["interval"]
        assert low <= row["tokens_per_step"] <= high
        assert row["tokens_per_step"] == row["tokens"] / row["steps"]
    assert (tree["draft_tokens"], tree["depth"]) == (3, 3)


@pytest.mark.parametrize("source", ["vector", "by_depth", "ranks"])
def test_trees_have_the_documented_form(rooftree, files, tmp_path, source):
    by_depth = tmp_path / "by-depth.json"
    by_depth.write_text("[[0.7, 0.1], [0.5, 0.2], [0.4]]")
    path = by_depth if source == "by_depth" else getattr(files, source)
    answer = rooftree(
        "tree", "--acceptance", path, "--nodes", "8,4", "--depth", "4", "--json", "--out", tmp_path
    ).answer
    assert [found["nodes"] for found in answer["trees"]] == [4, 8]
    for found in answer["trees"]:
        written = json.loads((tmp_path / f"tree-{found['nodes']}.json").read_text())
        tree = check_tree(written, found["nodes"] - 1)
        assert (written["parents"], written["ranks"]) == (found["parents"], found["ranks"])
        assert tree.depth <= found["depth"] == 4
        certificate = found["certificate"]
        if source == "ranks":
            assert certificate["kind"] == "bound" and certificate["gap"] >= 0
            assert (
                found["tokens_per_step"] == replay_tree(read_acceptance(path), tree).tokens_per_step
            )
        else:
            assert certificate == {"kind": "exact"} and tree.is_sibling_closed


def test_import_stores_what_was_stated(rooftree, files, tmp_path):
    *words, out = words_of_every_verb(files, tmp_path)["import"]
    answer = rooftree(*words, out, "--model", "gpt2", "--method", "n-gram", "--json").answer
    assert (answer["level"], answer["requests"], answer["positions"]) == (1, 1, 4)
    trace = read_acceptance(out)
    assert trace.emitted.tolist() == [1, 3, 2, 1] and trace.drafted.tolist() == [0, 4, 4, 0]
    assert (trace.first_step_position, trace.provenance.model, trace.provenance.method) == (
        1,
        "gpt2",
        "n-gram",
    )
    write_acceptance(trace, tmp_path / "again.parquet")
    assert (
        rooftree("replay", out, "--json").answer["chains"]
        == (rooftree("replay", tmp_path / "again.parquet", "--json").answer["chains"])
    )


def test_inspect_tells_level_and_kinds(rooftree, files):
    answer = rooftree("traces", "inspect", files.ranks, "--draft-tokens", "1,3", "--json").answer
    assert (answer["kind"], answer["level"], answer["requests"], answer["positions"]) == (
        "acceptance",
        2,
        8,
        456,
    )
    assert [kind["kind"] for kind in answer["kinds"]] == ["chat", "code", "all"]
    chains = rooftree("replay", files.ranks, "--draft-tokens", "1,3", "--json").answer["chains"]
    assert answer["kinds"][-1]["tokens_per_step"] == [chain["tokens_per_step"] for chain in chains]
    assert rooftree("traces", "inspect", files.summary, "--json").answer["level"] == 0


def test_catalogues_list_and_show(rooftree):
    from costmodel.architectures.library import model_names
    from costmodel.method_library import method_names
    from hardware_profiles.loader import device_names

    for verb, names, key in (
        ("devices", device_names(), "name"),
        ("models", model_names(), "name"),
        ("methods", method_names(), "slug"),
    ):
        listed = rooftree(verb, "--json").answer[verb]
        assert [each[key] for each in listed] == list(names)
        (shown,) = rooftree(verb, names[0], "--json").answer[verb]
        assert {name: shown[name] for name in listed[0]} == listed[0]
    (device,) = rooftree("devices", "l4", "--set", "device.power_w=61", "--json").answer["devices"]
    assert device["power_w"] == 61 and device["provenance"]["power_w"]["kind"] == "assumed"


def test_an_answer_is_exported_again_as_it_was(rooftree, optimized, tmp_path):
    answer, folder = optimized
    again = rooftree(
        "export", "vllm", "--from", folder / "recommendation.json", "--out", tmp_path, "--json"
    ).answer
    assert {"engine", "version", "files", "command", "notes"} <= set(again)
    kept = {path.name: path.read_text() for path in (folder / "vllm").iterdir()}
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    config = "vllm-speculative-config.json"
    assert set(made) == set(kept) and json.loads(made[config]) == json.loads(kept[config])
    assert answer["exports"]["vllm"]


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ("predict", "predictions"),
        ("replay", "replay"),
        ("tree", "trees"),
        ("inspect", "trace"),
        ("devices", "devices"),
        ("models", "models"),
        ("methods", "methods"),
    ],
)
def test_out_holds_what_json_prints(rooftree, files, tmp_path, verb, name):
    words = words_of_every_verb(files, tmp_path)[verb]
    printed = rooftree(*words, "--json", "--out", tmp_path / "new" / "folder").answer
    written = json.loads((tmp_path / "new" / "folder" / f"{name}.json").read_text(encoding="utf-8"))
    assert written == printed
