"""`acceptance`: figures with their sources, as tables and as JSON."""

import pytest

from costmodel.acceptance_library import published


def test_list_holds_every_figure_with_its_source(rooftree):
    entries = rooftree("acceptance", "list", "--json").answer["entries"]
    assert [entry["source"] for entry in entries] == [entry.source for entry in published()]
    for entry in entries:
        assert entry["source"] and entry["place"] and entry["bonus_token_included"] is True
        assert entry["rates"] or entry["tokens_per_step"]


def test_filters_narrow_the_list(rooftree):
    words = (
        "acceptance",
        "list",
        "--method",
        "EAGLE_3",
        "--model",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--json",
    )
    entries = rooftree(*words).answer["entries"]
    assert entries and {(e["method"], e["target"]) for e in entries} == {
        ("eagle-3", "llama-3.1-8b")
    }
    cold = rooftree(*words, "--temperature", "0", "--data-set", "mt-bench").answer["entries"]
    assert 0 < len(cold) < len(entries)


@pytest.mark.parametrize(
    "words", [("list",), ("list", "--model", "llama-3.1-8b"), ("compare", "--method", "mtp")]
)
def test_tables_keep_within_a_page(rooftree, words):
    ended = rooftree("acceptance", *words)
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 100


def test_show_quotes_a_number_with_its_source_on_one_screen(rooftree):
    ended = rooftree("acceptance", "show", "eagle-3", "llama-3.1-8b")
    lines = ended.out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100
    for part in (
        "measured on this target",
        "2.69",
        "github.com/vllm-project/vllm",
        "pull request 26498",
        "temperature",
    ):
        assert part in ended.out
    answer = rooftree("acceptance", "show", "eagle-3", "llama-3.1-8b", "--json").answer
    assert answer["kinship"] == "own" and answer["entry"]["rates"][0] == 0.74


def test_show_says_what_is_borrowed(rooftree):
    assert (
        "borrowed within its family"
        in rooftree("acceptance", "show", "eagle-3", "llama-3.1-405b").out
    )
    assert "borrowed from another model" in rooftree("acceptance", "show", "eagle-3", "phi-4").out


def test_compare_gives_the_published_means_at_their_lengths(rooftree):
    rows = rooftree("acceptance", "compare", "--model", "llama-3.1-8b", "--json").answer["entries"]
    assert len(rows) > 20
    for row in rows:
        curve = row["by_draft_tokens"]
        assert len(curve) == row["draft_tokens"]
        assert all(curve[k] == mean for k, mean in row["tokens_per_step"].items())
        assert all(1.0 <= mean <= int(k) + 1 for k, mean in curve.items())


def test_compare_puts_rates_and_traces_of_ones_own_beside_what_was_published(rooftree, files):
    words = (
        "acceptance",
        "compare",
        "--drafter",
        "eagle-3:0.78,0.61,0.48",
        "--drafter",
        f"n-gram:{files.lookup}",
    )
    answer = rooftree(*words, "--json").answer
    rates, trace = answer["yours"]
    assert rates["by_draft_tokens"] == pytest.approx({"1": 1.78, "2": 2.39, "3": 2.87})
    replayed = rooftree("replay", files.lookup, "--draft-tokens", "1,2,3,5,8", "--json").answer
    rows = {str(row["draft_tokens"]): row["tokens_per_step"] for row in replayed["chains"]}
    assert trace["by_draft_tokens"] == pytest.approx(rows)
    assert {entry["method"] for entry in answer["entries"]} == {"eagle-3", "n-gram"}
    shown = rooftree(*words, "--model", "llama-3.1-8b").out.splitlines()
    assert any("yours" in line and "2.87" in line for line in shown)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("list", "--method", "eagel-3"), "nearest: eagle-3"),
        (("list", "--model", "no-such"), "nothing was published"),
        (("show", "mtp", "llama-3.1-8b", "--data-set", "nowhere"), "nothing was published"),
        (("show", "plain-decoding", "llama-3.1-8b"), "unknown method"),
        (("list", "--temperature", "hot"), "hot"),
    ],
)
def test_bad_questions_end_with_two(rooftree, words, part):
    ended = rooftree("acceptance", *words)
    assert ended.code == 2 and ended.out == ""
    assert len(ended.err.splitlines()) == 1 and part in ended.err
