"""Files that engines, benchmarks and research code wrote: each imports with its own totals, or is
refused by name."""

import csv
import json

import pytest

from hardware_profiles.errors import InputError
from traces.importers.formats import detect, import_trace, read_trace_any

TREES = "a tree's shape and no acceptance"
REFUSED = {
    "../README.md": "nothing of any format",
    "../trees.json": "several lists of paths of ranks",
    "log_lines.txt": "claimed by several formats",
    "rest_humaneval_baseline.txt": "times and no acceptance",
    "samd_default_tree_6_60.json": TREES,
    "samd_eagle.json": TREES,
}
# as Sequoia's files are laid out; with numbers of our own
LAID_OUT = {
    "growmap.json": (
        {
            "roots": [[0], [1, 2], [3]],
            "branches": [[2], [1, 0], [0]],
            "Successors": [[1, 2], [3], [], []],
            "mask": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]],
            "depth": [0, 1, 1, 2],
            "size": 4,
        },
        TREES,
    ),
    "acceptance-rate-vector.json": ({"p": [0.0, 0.6, 0.1, 0.05]}, "tree --acceptance"),
    "demo-config.json": (
        {
            "acceptance_rate_vector": "acceptance-rate-vector.pt",
            "max_depth": 10,
            "max_budget": 32,
            "draft_time": 0.5,
            "valid_budget": [1, 2],
            "target_time": [9, 9],
            "dst": "tree.pt",
        },
        "configuration of a tree search",
    ),
}
ANSWERS = [
    "baseline_vicuna7b_mtbench",
    "medusa_mtbench_7b",
    "medusa_mtbench_7b_run1",
    "medusa_mtbench_13b",
    "medusa_mtbench_13b_run1",
    "rest_vicuna7b_mtbench",
]
TABLES = {
    "measured_tables.csv": ("accept_len", "accept_len"),
    "specbench_leaderboard.csv": ("method", "mean_accepted_tokens"),
    "trtllm_acceptance_length.csv": ("test", "ref_al"),
}


@pytest.fixture(scope="module")
def logs(published):
    return published / "engine_logs"


def test_every_file_is_accounted_for(logs):
    known = {name for name in (*REFUSED, *TABLES) if "/" not in name}
    known |= {*(f"{name}.jsonl" for name in ANSWERS), "medusa_acc.csv", "rest_humaneval_rest.txt"}
    assert {path.name for path in logs.iterdir()} == known


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_no_acceptance_is_refused_by_what_it_is(logs, name):
    with pytest.raises(InputError, match=REFUSED[name]) as caught:
        read_trace_any(logs / name, None if name != "../README.md" else detect(logs / name).name)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", LAID_OUT)
def test_files_of_a_tree_search_are_refused_by_what_they_are(tmp_path, name):
    content, rule = LAID_OUT[name]
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(InputError, match=rule) as caught:
        read_trace_any(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_add_up_to_their_own_sums(logs, name):
    path = logs / f"{name}.jsonl"
    choices = [
        choice for line in path.read_text().splitlines() for choice in json.loads(line)["choices"]
    ]
    steps = sum(last + 1 for choice in choices for last in choice["idxs"])
    tokens = sum(sum(choice["new_tokens"]) for choice in choices)
    trace = read_trace_any(path)
    assert (trace.provenance.extra["steps"], trace.provenance.extra["new_tokens"]) == (
        steps,
        tokens,
    )
    assert f"{tokens} new tokens in {steps} steps" in trace.provenance.notes
    lengths = [n for choice in choices for n in choice.get("accept_lengths:", [])]
    if not lengths:
        assert trace.level == 0 and trace.summary.tokens_per_step == tokens / steps
        columns = trace.extra_columns
        assert (sum(columns["steps"]), sum(columns["new_tokens"])) == (steps, tokens)
        assert trace.requests == sum(len(choice["idxs"]) for choice in choices)
        return
    # REST's list lacks the first token of every turn, its total does not
    assert tokens - sum(lengths) in (0, trace.requests)
    assert trace.level == 1 and trace.positions == tokens
    assert trace.summary.drafts == len(lengths) == steps
    assert trace.requests == sum(len(choice["idxs"]) for choice in choices)


def test_published_means_are_met(logs):
    """Medusa-1 on MT-bench emits 2.57 tokens per step with its 7B model; REST's own average stands
    in its output."""
    assert read_trace_any(
        logs / "medusa_mtbench_7b.jsonl"
    ).summary.tokens_per_step == pytest.approx(2.565, abs=5e-4)
    printed = read_trace_any(logs / "rest_humaneval_rest.txt").summary
    assert printed.tokens_per_step == pytest.approx(2.6481571486)


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_a_table_can_be_chosen(logs, name):
    _, column = TABLES[name]
    with (logs / name).open() as stream:
        rows = [row for row in csv.DictReader(stream) if row[column]]
    with pytest.raises(InputError, match=f"has {len(rows)} rows"):
        read_trace_any(logs / name)
    reached = 0
    for row in rows:
        details = (
            "test",
            "method",
            "leaderboard",
            "model",
            "target",
            "draft",
            "hardware",
            "batch",
            "K",
            "note",
        )
        words = row.get("test") or " ".join(row[key] for key in details if row.get(key))
        try:
            summary = import_trace("acceptance-table", logs / name, drafter=words).summary
        except InputError as error:
            assert "must name one row" in str(error)
            continue
        assert summary.tokens_per_step == pytest.approx(float(row[column]))
        reached += 1
    assert reached >= len(rows) - 1, "one row's name and details stand in another's"


def test_head_accuracies_are_differences_of_what_was_logged(logs):
    with (logs / "medusa_acc.csv").open() as stream:
        row = next(row for row in csv.DictReader(stream) if row["Name"] == "7b")
    vectors = import_trace(
        "acceptance-table", logs / "medusa_acc.csv", drafter="7b"
    ).summary.sibling_vectors
    assert len(vectors) == 5
    assert sum(vectors[0]) == pytest.approx(float(row["train/medusa0_top5"]))


@pytest.mark.parametrize(
    ("form", "options", "totals"),
    [
        ("vllm-log", {}, (13991, 55303, 21680)),
        ("sglang-log", {}, (0, 0, 0)),
        ("llama-cpp-timings", {}, (150, 604, 515)),
        ("llama-cpp-log", {"drafter": "draft-mtp"}, (22393, 44781, 37046)),
        ("llama-cpp-log", {"drafter": "ngram_map_k"}, (26, 1248, 968)),
    ],
)
def test_lines_of_several_engines_are_read_by_the_one_named(logs, form, options, totals):
    summary = import_trace(form, logs / "log_lines.txt", **options).summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == totals
    assert sum(window.drafts for window in summary.windows) in (0, totals[0])
