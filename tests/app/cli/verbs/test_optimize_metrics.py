"""optimize --metrics: from two scrapes to what to run, whether that is sure, and what to measure
next."""

import json
import shlex

import pytest

from tests.traces.importers.engines.test_running import (
    KEPT,
    SGLANG,
    SGLANG_LOG,
    STARTED,
    VLLM,
    lora,
    vllm,
    vllm_log,
)

ASK = (
    "optimize",
    "--device",
    "h100-sxm",
    "--method",
    "eagle-3",
    "--batch",
    "1,64",
    "--tree-nodes",
    "0",
)
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture
def scrapes(tmp_path):
    twice = {name: 2 * value for name, value in VLLM.items()}
    texts = {"before": vllm(MODEL), "after": vllm(MODEL, [2 * kept for kept in KEPT], **twice)}
    for name, text in texts.items():
        (tmp_path / f"{name}.prom").write_text(text)
    return tmp_path / "before.prom", tmp_path / "after.prom"


@pytest.fixture
def ask(rooftree, tmp_path):
    return lambda *words: rooftree(*ASK, *words, "--out", tmp_path / "out")


def test_the_schedule_is_that_of_the_counted_rates(ask, rooftree, scrapes, tmp_path):
    answer = ask("--metrics", *scrapes, "--json").answer
    stated = ",".join(str(kept / 4200) for kept in KEPT)
    same = rooftree(
        *ASK[:3],
        "--model",
        MODEL,
        "--batch",
        "1,64",
        "--drafter",
        f"eagle-3:{stated}",
        "--out",
        tmp_path,
        "--json",
    ).answer
    assert answer["schedule"] == same["schedule"] and answer["inputs"]["metrics"] == [
        str(file) for file in scrapes
    ]
    assert [row["tokens_per_s"] for row in answer["choices"]] == [
        row["tokens_per_s"] for row in same["choices"]
    ]
    kept = [row["configuration"]["acceptance_by_depth"] for row in answer["choices"]]
    assert kept[0] == pytest.approx([kept / 4200 for kept in KEPT])


def test_adapters_that_ran_are_priced_unless_others_are_stated(ask, scrapes):
    after = scrapes[1]
    counters = after.read_text()
    numbers = {}
    for name, samples, options in (
        ("none", "", ()),
        ("read", lora("sql,chat") + lora("chat,law"), ()),
        ("stated", "", ("--max-loras", "4", "--max-lora-rank", "16")),
        ("other", lora("sql,chat"), ("--max-loras", "64", "--max-lora-rank", "64")),
        ("left out", lora("sql,chat"), ("--max-loras", "0")),
        ("idle", lora("", "chat"), ()),
    ):
        after.write_text(counters + samples)
        answer = ask("--metrics", *scrapes, *options, "--json").answer
        numbers[name] = [row["tokens_per_s"] for row in answer["choices"]]
        said = " ".join(ask("--metrics", *scrapes, *options).out.split())
        taken = "--max-loras 4 (requests ran with 3 adapters)"
        assert (taken in said) == (name == "read")
        assert ("--max-lora-rank 16" in said) == (name == "read")
    assert numbers["read"] == numbers["stated"] != numbers["none"]
    assert numbers["left out"] == numbers["idle"] == numbers["none"]
    assert all(a < b for a, b in zip(numbers["other"], numbers["read"], strict=True))


def test_what_runs_is_judged_where_it_runs(ask, scrapes):
    counters = ask("--metrics", *scrapes, "--json").answer["counters"]
    now = counters["in_use"]
    assert (counters["engine"], now["draft_tokens"], now["steps"], now["batch"]) == (
        "vllm",
        3,
        4200,
        21.0,
    )
    assert [(each["batch"], each["runs_now"]) for each in counters["verdicts"]] == [
        (1, False),
        (21, True),
        (64, False),
    ]
    there = counters["verdicts"][1]
    assert now["predicted_tpot_s"] == pytest.approx(21 / there["in_use_tokens_per_s"])
    assert (
        there["in_use_draft_tokens"] == 3
        and there["answer"] == "keep"
        and not counters["suffices_now"]
    )
    (following,) = counters["next"]
    assert (
        following["reason"] == "never drafted"
        and following["draft_tokens"] > 3
        and following["steps"] >= 100
    )


def test_the_screen_and_the_report_say_it_in_the_same_words(ask, scrapes, tmp_path):
    said = " ".join(ask("--metrics", *scrapes).out.split())
    for words in (
        "vLLM ran K=3: 4,200 drafts",
        "keep K=3 at batch 21",
        "the counters do not suffice",
        "measure next: run K=",
        "counted on meta-llama/Llama-3.1-8B-Instruct",
    ):
        assert words in said
    page = (tmp_path / "out" / "report.html").read_text()
    assert "What runs now" in page and "measure next: run K=" in page


def test_one_scrape_counts_from_the_start(ask, scrapes):
    said = ask("--metrics", scrapes[0]).out
    assert "since it started" in said
    repeated = ask("--metrics", scrapes[0], "--metrics", scrapes[1], "--json").answer
    assert repeated["counters"]["scrapes"] == [str(file) for file in scrapes]


def test_a_mean_alone_says_what_it_cannot_know(ask, tmp_path):
    file = tmp_path / "sglang.prom"
    file.write_text(SGLANG.format(nodes=4).replace(" ", f'{{model_name="{MODEL}"}} '))
    counters = ask("--metrics", file, "--engine", "sglang", "--json").answer["counters"]
    assert [each["how"] for each in counters["lengths"][:5]] == [
        "counted",
        "between",
        "between",
        "counted",
        "beyond",
    ]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (
            ("--metrics", "{before}", "{after}", "--method", "plain-decoding"),
            "--method: neither counters, logs nor responses say",
        ),
        (("{after}",), "AFTER: is a second scrape"),
        (
            ("--metrics", "{before}", "--metrics", "{after}", "{after}"),
            "--metrics: takes one scrape or two",
        ),
        (("--metrics", "{before}", "nowhere.prom"), "nowhere.prom"),
    ],
)
def test_refusals(ask, scrapes, words, rule):
    named = dict(zip(("before", "after"), scrapes, strict=True))
    ended = ask(*(word.format_map(named) for word in words))
    assert ended.code == 2 and ended.out == "" and rule in ended.err


def test_scrapes_in_the_other_order_are_told_and_answered_alike(ask, scrapes):
    right, swapped = (
        ask("--metrics", *order, "--json").answer["counters"] for order in (scrapes, scrapes[::-1])
    )
    (remark,) = set(swapped["remarks"]) - set(right["remarks"])
    assert remark.startswith("before.prom was scraped before after.prom")
    assert swapped | {"remarks": right["remarks"]} == right


FEW = (1500, 300, 60, 12, 3)


def deep(model=MODEL, positions=FEW):
    """A scrape of a server that drafts five tokens, of which the first two alone are kept often."""
    kept = sum(positions)
    counts = {"num_draft_tokens": 21_000, "num_accepted_tokens": kept}
    named = {f"spec_decode_{name}": value for name, value in counts.items()}
    return vllm(model, positions, **named, generation_tokens=4200 + kept + 40)


def test_a_change_is_said_with_its_gain_and_in_the_engines_options(ask, tmp_path):
    (tmp_path / "deep.prom").write_text(deep())
    words = ("--metrics", tmp_path / "deep.prom")
    counters = ask(*words, "--json").answer["counters"]
    there = next(row for row in counters["verdicts"] if row["runs_now"])
    assert (there["answer"], there["in_use_draft_tokens"]) == ("change", 5)
    now, then = counters["compared"]
    assert (now["which"], now["draft_tokens"]) == ("runs now", 5)
    assert (then["draft_tokens"], then["tokens_per_s"]) == (
        there["best_draft_tokens"],
        there["best_tokens_per_s"],
    )
    gain, (low, high) = there["gain_ratio"], there["gain_ratio_interval"]
    assert counters["headline"].startswith(
        f"change: run K={there['best_draft_tokens']} instead of K=5 at batch 21: it gains"
        f" {100 * gain:.0f} % [{100 * low:.1f}, {100 * high:.1f}]"
    )
    flags = counters["flags"][0]
    old, new = (json.loads(shlex.split(flags[part])[1]) for part in ("old", "new"))
    assert flags["purpose"] == "change" and flags["stated_by"] == "export"
    assert old == new | {"num_speculative_tokens": 5} != new
    assert new["num_speculative_tokens"] == there["best_draft_tokens"]
    out = ask(*words).out
    assert f"  - {flags['old']}\n  + {flags['new']}\n" in out, "whole lines, to be copied"
    assert counters["headline"] in " ".join(out.split())


def test_options_that_a_log_states_are_those_that_change(rooftree, tmp_path):
    stated = {"method": "eagle3", "model": "mine/head", "num_speculative_tokens": 3, "seed": 1}
    log = tmp_path / "vllm.log"
    log.write_text(f"args: {{'speculative_config': {stated!r}}}\n" + STARTED + vllm_log())
    words = ("optimize", "--metrics", log, "--batch", "24", "--out", tmp_path / "out", "--json")
    (flags,) = rooftree(*words).answer["counters"]["flags"]
    assert (flags["purpose"], flags["stated_by"]) == ("measure", "log")
    assert json.loads(shlex.split(flags["old"])[1]) == stated
    changed = json.loads(shlex.split(flags["new"])[1])
    assert changed == stated | {"num_speculative_tokens": flags["draft_tokens"]} != stated


def test_python_asks_the_same(scrapes):
    import rooftree

    answer = rooftree.optimize(
        metrics=list(scrapes), method="eagle-3", device="h100-sxm", batch=[1]
    )
    assert json.loads(json.dumps(answer.to_json()))["counters"]["in_use"]["draft_tokens"] == 3
    assert "what runs" in str(answer)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(STARTED + vllm_log())
    return path


def test_a_log_alone_is_enough(rooftree, log, tmp_path):
    """From the log to what it means at the traffic that runs, half and twice that, and to files."""
    words = ("optimize", "--metrics", log, "--batch", "12,24,48", "--out", tmp_path / "out")
    said = " ".join(rooftree(*words).out.split())
    for sentence in (
        "vLLM ran K=3 in its log: 20,000 drafts, 2.600 tokens per step",
        "24 requests a step",
        "its log tells 4 ms per output token",
        "taken from vllm.log: --method eagle-3, --tp 2, a cache of 812,000 tokens",
        "assumed, since neither vllm.log nor an option tells: --device h100-sxm, --context 1024",
        "keep K=3 at batch 24",
        "measure next: run K=",
    ):
        assert sentence in said
    answer = rooftree(*words, "--json").answer
    assert [row["batch"] for row in answer["counters"]["verdicts"]] == [12, 24, 48]
    assert (answer["inputs"]["tp"], answer["inputs"]["model"]) == (2, MODEL)
    script = (tmp_path / "out" / "vllm" / "vllm-serve.sh").read_text()
    assert "--tensor-parallel-size 2" in script


def test_what_is_stated_goes_over_what_a_log_tells(ask, log):
    answer = ask("--metrics", log, "--tp", "1", "--context", "512", "--json").answer
    assert answer["inputs"]["tp"] == 1
    assert not any("--tp" in remark for remark in answer["counters"]["remarks"])
    assert not any(remark.startswith("assumed") for remark in answer["counters"]["remarks"])


def test_the_engine_of_a_log_is_the_engine(rooftree, tmp_path):
    log = tmp_path / "sglang.log"
    log.write_text(SGLANG_LOG)
    words = ("optimize", "--metrics", log, "--batch", "8", "--out", tmp_path, "--json")
    answer = rooftree(*words).answer
    assert (answer["inputs"]["engine"], answer["inputs"]["tp"]) == ("sglang", 4)
    assert answer["counters"]["in_use"]["batch"] == 10.0


def test_requests_that_cannot_fit_are_not_believed(ask, scrapes, tmp_path):
    busy = tmp_path / "busy.prom"
    busy.write_text(vllm(MODEL, iteration_tokens_total_count=65))
    counters = ask("--metrics", busy, "--device", "l4", "--batch", "1,8", "--json").answer[
        "counters"
    ]
    assert counters["in_use"]["batch"] == pytest.approx(4200 / 65)
    (remark,) = [text for text in counters["remarks"] if "do not fit on 1 x l4" in text]
    assert remark.startswith("65 requests a step") and "--tp" in remark
    placed = ask(
        "--metrics", busy, "--device", "l4", "--tp", "2", "--batch", "1,8", "--json"
    ).answer
    assert not any("do not fit" in text for text in placed["counters"]["remarks"])
    assert any(row["runs_now"] for row in placed["counters"]["verdicts"])


@pytest.mark.parametrize("what", ["log", "counters"])
def test_a_simulation_drafts_as_many_tokens_as_were_counted(rooftree, log, scrapes, what):
    file = log if what == "log" else scrapes[1]
    words = ("simulate", "--trace", file, "--method", "eagle-3", "--model", "llama-3.1-8b")
    words += ("--rate", "4", "--count", "20")
    told, stated, other = (
        rooftree(*words, *more, "--json").answer
        for more in ((), ("--draft-tokens", "3"), ("--draft-tokens", "1"))
    )
    assert told["metrics"] == stated["metrics"] != other["metrics"]
    assert any("K=3, the draft length that was counted" in note for note in told["notes"])
    assert not any("that was counted" in note for note in stated["notes"])
