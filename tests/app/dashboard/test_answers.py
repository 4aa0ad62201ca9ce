"""Answers of the pages: what they say agrees with the command line that they hand out."""

import io
import json
import math
import re
import shlex
import statistics
import zipfile
from dataclasses import replace
from itertools import pairwise

import pytest

from app.answers.optimize.headline import schedule_words
from app.answers.simulations import highest_rates
from app.cli.main import main
from app.dashboard.answer import DeferredAnswer
from app.dashboard.answers.diffusion.page import answer_diffusion
from app.dashboard.answers.hardware import answer_hardware
from app.dashboard.answers.map import answer_map
from app.dashboard.answers.pareto import answer_pareto
from app.dashboard.answers.run.engines import BY_BATCH
from app.dashboard.answers.run.page import answer_run
from app.dashboard.answers.serving import answer_serving
from app.dashboard.answers.trace.page import answer_trace
from app.dashboard.answers.tree.page import answer_tree, balanced_tree
from app.dashboard.answers.validation.page import answer_validation
from app.dashboard.answers.validation.runs import run_rows, validated
from app.dashboard.device_numbers import number_as_sold
from app.dashboard.measured import REPORT, measured_results
from app.dashboard.recorded import tree_traces
from app.dashboard.state import State
from app.render.charts.charts import digits
from costmodel.optimizers.recommend import DEFAULT_BATCHES
from hardware_profiles.errors import InfeasibleError, InputError
from traces.library import shipped_traces

RANKED = "smollm2-135m--early-exit--greedy"
LENGTHS = "smollm2-135m--prompt-lookup--greedy"
SERVED = State(
    draft_tokens=5, page="serving", count=12, rate=2.0, prompt_tokens=64, output_tokens=16
)
ANSWERS = {
    "run": answer_run,
    "map": answer_map,
    "tree": answer_tree,
    "trace": answer_trace,
    "hardware": answer_hardware,
    "diffusion": answer_diffusion,
    "pareto": answer_pareto,
    "validation": answer_validation,
    "serving": lambda state: answer_serving(SERVED, lambda *told: None),
}


@pytest.fixture(autouse=True)
def _short_searches(monkeypatch):
    """The highest rate is looked for roughly: pages and commands ask the same search."""
    monkeypatch.setattr(highest_rates, "RESOLUTION", 1.5)
    monkeypatch.setattr(highest_rates, "MOST_REQUESTS", 1000)


def said(capsys, text, *more):
    """The JSON answer of a command line that a page hands out."""
    words = shlex.split(text)
    assert words[0] == "rooftree"
    capsys.readouterr()
    assert main([*words[1:], *more]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("page", ANSWERS)
def test_every_figure_is_json_with_units_on_its_axes(page):
    answer = ANSWERS[page](State(page=page))
    assert answer.cards
    assert answer.headline
    assert answer.command.startswith("rooftree ")
    later, behind = (
        part() if part else DeferredAnswer() for part in (answer.deferred, answer.behind)
    )
    assert all(
        isinstance(note, str) and note for note in (*answer.notes, *later.notes, *behind.notes)
    )
    for card in (*answer.cards, *later.cards):
        json.dumps(card.figure, allow_nan=False)
        assert card.note
        for axis in ("xaxis", "yaxis"):
            about = card.figure["layout"].get(axis, {})
            assert (
                about.get("visible") is False
                or about.get("title")
                or card.title.startswith("Where")
            ), card.title
    for _, rows in (*answer.tables, *later.tables):
        assert len({tuple(row) for row in rows}) == 1, "one set of columns"


def test_the_recommendation_is_that_of_optimize(capsys, tmp_path):
    state = State(batch=64, context=2048, tree_nodes=8, known_by="recording", trace=RANKED)
    answer = answer_run(state)
    told = said(capsys, answer.command, "--json", "--out", str(tmp_path))
    row = next(row for row in told["choices"] if row["batch"] == 64)
    assert answer.tables[0][1][0]["tokens/s"] == pytest.approx(row["tokens_per_s"], abs=0.05)
    assert answer.tables[0][1][0]["speedup (×)"] == pytest.approx(row["speedup"], abs=5e-4)
    packed = zipfile.ZipFile(io.BytesIO(answer.files["rooftree-engine-files.zip"]()))
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    alone = {name for name in packed.namelist() if BY_BATCH not in name}
    assert alone == written - {"recommendation.json", "report.html"}


def test_the_engines_command_is_the_one_that_optimize_writes(capsys, tmp_path):
    state = State(
        model="llama-3.1-70b", tp=4, batch=64, context=8192, method="eagle-3", dtype="fp8"
    )
    answer = answer_run(state)
    said(capsys, answer.command, "--json", "--out", str(tmp_path))
    packed = zipfile.ZipFile(io.BytesIO(answer.files["rooftree-engine-files.zip"]()))
    for name in packed.namelist():
        if BY_BATCH not in name:
            assert packed.read(name).decode() == (tmp_path / name).read_text(), name
    script = (tmp_path / "vllm" / "vllm-serve.sh").read_text()
    command = answer.engines[0].command
    assert (
        command.split()[:2] == ["vllm", "serve"]
        and answer.engines[0].files["vllm-serve.sh"] == script
    )
    for word in ("--tensor-parallel-size 4", "--quantization fp8", '"method":"eagle3"'):
        assert word in command and word in script
    assert "--max-num-seqs" not in command + script  # no limit of requests was stated


def loaded(text):
    """What an engine reads of a file: remarks name the batch whose speedup they state."""
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_schedule_beside_one_length_is_the_one_that_optimize_writes_of_all_batches(
    capsys, tmp_path
):
    answer = answer_run(State(batch=8))
    rest = answer.deferred()
    (one,), (scheduled,) = answer.engines, rest.engines
    assert one.title.startswith("At batch 8: eagle-3")
    every = answer.command.replace("--batch 8 ", f"--batch {','.join(map(str, DEFAULT_BATCHES))} ")
    told = said(capsys, every, "--json", "--out", str(tmp_path))
    assert len(told["schedule"]) > 1 and any(
        schedule_words(told["schedule"]) in note for note in rest.notes
    )
    assert scheduled.title == "As a schedule over batches"
    written = {path.name: path.read_text() for path in (tmp_path / "vllm").iterdir()}
    assert {name: loaded(text) for name, text in scheduled.files.items()} == {
        n: loaded(t) for n, t in written.items()
    }
    packed = zipfile.ZipFile(io.BytesIO(answer.files["rooftree-engine-files.zip"]()))
    assert (
        packed.read(f"vllm-{BY_BATCH}/vllm-serve.sh").decode() == scheduled.files["vllm-serve.sh"]
    )


def test_where_the_schedule_drafts_another_length_than_the_card_the_page_says_what_that_loses():
    differs = re.compile(r"At batch 8 it drafts (\d+), not (\d+): (\d\.\d) % slower")
    found = answer_run(State(batch=8))
    rest = found.deferred()
    (words,) = [match for match in map(differs.search, rest.notes) if match]
    scheduled, mine, lost = words.groups()
    assert dict(found.numbers)["Speculation"].endswith(f"chain:{mine}") and scheduled != mine
    assert float(lost) <= 0.5  # what a schedule may lose at any batch
    (over,) = [note for note in rest.notes if note.startswith("Over batches")]
    assert re.search(rf"draft {scheduled} tokens at batch 1–(\d\d|[89])", over)
    assert not any("it drafts" in note for note in answer_run(State(batch=16)).deferred().notes)


def test_what_drafts_nowhere_and_an_engine_without_files_have_no_schedule():
    off = answer_run(State(method="n-gram", known_by="rate", acceptance="0"))
    assert len(off.engines) == 1 and not off.deferred().engines
    none = answer_run(State(engine="none"))
    assert (
        not none.engines
        and not none.deferred().engines
        and any("takes no command" in note for note in none.notes)
    )


def test_nothing_is_drafted_below_a_headline_that_says_so():
    answer = answer_run(State(method="eagle-3", known_by="rate", acceptance="0.25", batch=256))
    assert answer.headline.startswith("Run without speculation")
    (start,) = answer.engines
    assert start.title == "At batch 256: plain decoding" and "speculative" not in start.command
    (scheduled,) = answer.deferred().engines
    drafts = re.search(r"which drafts (\d+|nothing) at batch 256", scheduled.title).group(1)
    assert drafts == "nothing" or "a drafter that stays loaded costs" in scheduled.title


def test_as_published_is_the_checkpoints_own_format():
    where = {"model": "deepseek-v3", "device": "h200-sxm", "tp": 8}
    own, stated, wide = (
        dict(answer_map(State(**where, dtype=dtype)).numbers) for dtype in ("", "fp8-block", "bf16")
    )
    assert own == stated
    assert own["Memory per device"] != wide.get("Memory per device")


@pytest.mark.parametrize("page", ["run", "map", "tree", "hardware", "pareto", "diffusion"])
def test_a_changed_device_holds_on_every_page(page):
    sold, changed = (
        ANSWERS[page](State(page=page, bandwidth_gb_per_s=rate)) for rate in (0.0, 837.5)
    )
    assert "device.bandwidth_bytes_per_s=8.375e+11" in changed.command
    assert "device.bandwidth" not in sold.command and dict(sold.numbers) != dict(changed.numbers)


def test_a_model_keeps_the_name_that_its_drafters_are_published_by():
    for page in ("run", "map", "hardware"):
        answer = ANSWERS[page](State(page=page, model="llama-3.3-70b", tp=4, method="eagle-3"))
        assert "--model llama-3.3-70b " in answer.command


def test_the_runner_up_and_its_loss_are_those_of_optimize(capsys, tmp_path):
    answer = answer_run(State(batch=48))
    (cell,) = said(capsys, answer.command, "--json", "--out", str(tmp_path))["cells"]
    after = cell["runner_up"]
    expected = f"{after['drafter']}, {after['draft']}: loses {100 * cell['lost_ratio']:.0f} %"
    assert dict(answer.numbers)["Runner-up"] == expected
    assert answer.numbers[0] == (
        "Speculation",
        f"on: {cell['winner']['drafter']}, {cell['winner']['draft']}",
    )


def test_a_card_says_how_sure_it_is_and_a_drafter_that_does_not_pay_is_off():
    answer = answer_run(State(batch=8))
    assert any(note.startswith("Acceptance of eagle-3: Published") for note in answer.notes)
    off = answer_run(State(method="n-gram", known_by="rate", acceptance="0"))
    assert off.numbers[0] == ("Speculation", "off")
    assert not any("n-gram" in note for note in off.notes if "Acceptance" in note)


@pytest.mark.parametrize("bandwidth", [0.0, 1675.0])
def test_the_cheapest_device_meets_the_limits_and_the_command_line_says_its_price(
    capsys, tmp_path, bandwidth
):
    state = State(batch=8, slo_tpot=20.0, bandwidth_gb_per_s=bandwidth)
    rest = answer_run(state).deferred()
    rows = rest.tables[0][1]
    priced = [
        row["$ per million tokens"] for row in rows if row["$ per million tokens"] is not None
    ]
    assert priced == sorted(priced) and len(rows) > 10
    assert all(
        row["time per token (ms)"] <= 20.0 for row in rows if row["time per token (ms)"] is not None
    )
    (change,) = rest.changes
    there = answer_run(replace(state, **change.values))
    row, *_ = said(capsys, there.command, "--json", "--out", str(tmp_path))["choices"]
    assert rows[0]["tokens/s"] == pytest.approx(row["tokens_per_s"], abs=0.05)
    assert rows[0]["device"] == row["device"] and any(
        rows[0]["device"] in note for note in rest.notes
    )


def test_any_batch_is_answered_itself(capsys, tmp_path):
    answer = answer_run(State(batch=48))
    assert "batch 48 " in answer.headline
    assert "--batch 48" in answer.command
    row = said(capsys, answer.command, "--json", "--out", str(tmp_path))["choices"][0]
    gain = [
        float(part) for part in re.findall(r"[\d.]+", dict(answer.numbers)["Gain (80 % interval)"])
    ]
    assert gain[:1] + gain[-2:] == pytest.approx(
        [row["speedup"], *row["speedup_interval"]], abs=0.006
    )
    assert answer.tables[0][1][0]["tokens/s"] == pytest.approx(row["tokens_per_s"], abs=0.05)


def test_a_limit_that_the_batch_misses_marks_it_and_names_what_holds():
    state = State(batch=128, slo_tpot=8.0)
    answer = answer_run(state)
    assert answer.headline.startswith("Within 8 ms a token at context 1,024: up to ")
    assert ". Batch 128 misses the limits" in answer.headline
    rest = answer.deferred()
    title, rows = rest.tables[0]
    marked = {row["batch"]: row for row in rows}
    assert title == "What does not hold" and marked[128]["misses"] == "limits"
    assert rest.cards and 1 not in marked, "the batches that hold are still drawn"
    near = answer.headline.partition("Nearest that holds: batch ")[2].partition(",")[0].rstrip(".")
    assert "Nearest that holds" not in answer_run(replace(state, batch=int(near))).headline, (
        "it has been tried"
    )


def test_a_limit_that_no_batch_meets_is_a_page_of_marked_rows():
    answer = answer_run(State(batch=1, slo_tpot=0.01))
    assert answer.headline.startswith("Within 0.01 ms a token at context 1,024: no user")
    assert ". Batch 1 misses the limits" in answer.headline
    rest = answer.deferred()
    assert not answer.cards and not rest.cards
    assert len(rest.tables[0][1]) == 9


def test_a_model_that_fits_nowhere_on_its_device_is_a_marked_row():
    answer = answer_run(State(model="llama-3.1-70b", batch=1))
    assert "Nearest that holds: tp 2" in answer.headline
    rest = answer.deferred()
    assert not answer.cards and not rest.cards
    assert len(rest.tables[0][1]) == 9


def test_the_tree_is_that_of_the_command_line(capsys):
    answer = answer_tree(State(tree_nodes=8, depth=4))
    told = said(capsys, answer.command, "--json")["trees"][0]
    assert json.loads(answer.files["tree.json"]())["parents"] == told["parents"]
    shapes = answer.deferred().tables[0][1]
    assert shapes[0]["tokens per step"] == pytest.approx(told["tokens_per_step"], abs=1e-4)
    fair = [
        row["tokens per step"] for row in shapes if row["draft tokens"] <= shapes[0]["draft tokens"]
    ]
    assert shapes[0]["tokens per step"] == max(fair), "none of its size beats the chosen one"


def test_trees_need_a_recording_with_ranks():
    assert RANKED in tree_traces()
    assert LENGTHS not in tree_traces()
    with pytest.raises(InputError, match="level"):
        answer_tree(State(trace=LENGTHS))


@pytest.mark.parametrize(
    ("nodes", "width", "depth"), [(1, 2, 1), (7, 2, 3), (64, 3, 10), (5, 3, 1)]
)
def test_balanced_trees_keep_their_bounds(nodes, width, depth):
    tree = balanced_tree(nodes, width, depth)
    assert tree.draft_tokens <= nodes
    assert tree.depth - 1 <= depth
    assert max(tree.ranks) < width


def test_a_recording_is_replayed_as_the_command_line_does(capsys):
    answer = answer_trace(State(trace=LENGTHS, draft_tokens=3))
    told = said(capsys, answer.command, "--json")
    assert float(dict(answer.numbers)["Tokens per step"]) == pytest.approx(
        told["replays"][0]["tokens_per_step"]
        if "replays" in told
        else told["chains"][0]["tokens_per_step"],
        abs=0.005,
    )
    depth = answer.cards[0].figure["data"][0]["y"]
    assert all(a >= b for a, b in pairwise(depth)), "deeper is never likelier"


def test_two_recordings_stand_beside_each_other(capsys):
    answer = answer_trace(State(trace=RANKED, other_trace=LENGTHS))
    assert {line["name"] for line in answer.cards[0].figure["data"]} == {RANKED, LENGTHS}
    assert main(shlex.split(answer.command)[1:]) == 0


def test_the_changed_device_is_that_of_predict(capsys):
    state = State(bandwidth_gb_per_s=6700.0, batch=8)
    answer = answer_hardware(state)
    point = said(capsys, answer.command, "--json")["predictions"][0]
    assert answer.tables[0][1][0]["tokens/s"] == pytest.approx(point["tokens_per_s"], abs=0.05)
    beside = {row["device"]: row["tokens/s"] for row in answer.tables[0][1]}
    assert beside["h100-sxm, modified"] > beside["h100-sxm, as sold"]


def test_a_price_moves_dollars_and_nothing_else():
    listed = number_as_sold("h100-sxm", "price_usd_per_hour")
    sold, half = (
        answer_hardware(State(price_usd_per_hour=price)).tables[0][1][0]
        for price in (0.0, listed / 2)
    )
    assert half["$ per million tokens"] == pytest.approx(sold["$ per million tokens"] / 2, rel=1e-3)
    assert half["tokens/s"] == sold["tokens/s"]


def test_a_device_without_room_is_said():
    with pytest.raises(InfeasibleError):
        answer_hardware(State(memory_gb=20.0, model="llama-3.1-70b"))


def test_simulations_serve_the_same_requests_and_tell_progress():
    told = []
    answer = answer_serving(SERVED, lambda *args: told.append(args))
    assert {args[0].partition(" at ")[0] for args in told} == {"as asked", "autoregressive"}
    assert all(0 <= ended <= whole for _, ended, whole in told)
    for row in answer.tables[0][1]:
        drafted, plain = row["K = 5 (ms)"], row["no speculation (ms)"]
        assert row["change (%)"] == pytest.approx(100 * (drafted / plain - 1), abs=0.1), (
            "the baseline beside every number"
        )
    for card in answer.cards:
        first, last = card.figure["data"][0], card.figure["data"][-1]
        assert len(first["x"]) > 5 and first["x"] == sorted(first["x"]), "rates are swept"
        assert SERVED.rate in first["x"] and SERVED.rate in last["x"]
        knees = [line["x0"] for line in card.figure["layout"]["shapes"]]
        assert len(knees) == 2 and min(first["x"]) < knees[0] < max(first["x"])


def test_a_load_beyond_what_is_sustained_is_overloaded_and_one_below_is_not():
    long = replace(SERVED, prompt_tokens=1000, output_tokens=200)
    below, beyond = (
        answer_serving(replace(long, rate=rate, count=100), lambda *told: None)
        for rate in (4.0, 50.0)
    )
    assert beyond.headline.startswith("Overloaded at 50.0 requests/s")
    assert "shortens" not in beyond.headline and "shortens the mean time" in below.headline
    rates = [
        [
            float(part)
            for part in re.findall(r"sustains ([\d.]+)/s, and ([\d.]+)/s", page.headline)[0]
        ]
        for page in (below, beyond)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.5), "whatever rate was asked about"
    assert all(4.0 < rate < 50.0 for rate in rates[0])


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"method": "eagle-3", "known_by": "rate"},
        {"trace": LENGTHS},
        {"method": "speculative-decoding", "known_by": "rate", "draft": "llama-3.2-1b"},
        {"method": "n-gram", "dtype": "fp8", "tp": 2},
    ],
)
def test_a_simulation_drafts_as_the_question_does(capsys, tmp_path, changed):
    answer = answer_serving(replace(SERVED, **changed), lambda *told: None)
    told = said(capsys, answer.command, "--json", "--out", str(tmp_path))
    drafted, plain = (row["metrics"] for row in told["load"])
    rows = {(row["time"], row["statistic"]): row["K = 5 (ms)"] for row in answer.tables[0][1]}
    wait = 1e3 * drafted["itl_s"]["mean"]
    assert rows["time between deliveries", "mean"] == pytest.approx(wait, abs=6e-4)
    numbers = dict(answer.numbers)
    for name, key in (("Output", "tokens_per_s"), ("Goodput", "goodput_per_s")):
        assert numbers[name].split()[0] == digits(drafted[key])
        assert f"({digits(plain[key])} without)" in numbers[name]
    assert numbers["Sustains"].startswith(f"{digits(told['highest_rates'][0]['rate_per_s'])}/s")


def test_a_simulation_can_be_stopped_from_its_progress():
    class StoppedError(Exception):
        pass

    def stop(*told):
        raise StoppedError

    with pytest.raises(StoppedError):
        answer_serving(replace(SERVED, count=200), stop)


def test_a_short_load_has_the_goodput_of_a_long_one():
    """Requests that arrive each second are served, however many; counted to the last one's end they
    would be fewer."""

    def goodput(count, seed):
        load = replace(SERVED, count=count, rate=8.0, output_tokens=200, seed=seed)
        return float(dict(answer_serving(load, lambda *told: None).numbers)["Goodput"].split()[0])

    short = statistics.fmean(goodput(100, seed) for seed in range(8))
    assert short == pytest.approx(goodput(2000, 0), rel=0.12)


def test_validation_errors_are_those_of_the_rows():
    answer = answer_validation(
        State(measured=next(name for name in measured_results() if name.startswith("h100")))
    )
    errors = next((card for card in answer.cards if card.title == "Errors of passes"), None)
    if errors is None:
        assert any("no shipped profile" in note for note in answer.notes)
        return
    title = errors.figure["layout"]["xaxis"]["title"]["text"]
    assert "short of" in title, "above zero where the predicted time is the shorter one"
    values = sorted(abs(v) for v in errors.figure["data"][0]["x"])
    middle = float(dict(answer.numbers)["Median error of passes"].removesuffix(" %"))
    half = len(values) // 2
    assert middle == pytest.approx((values[half] + values[~half]) / 2, abs=0.06)
    assert all(math.isfinite(value) for value in values)


def test_shipped_recordings_are_there():
    assert {RANKED, LENGTHS} <= {path.stem for path in shipped_traces()}


@pytest.mark.parametrize("results", measured_results())
def test_every_measured_device_has_its_page(results):
    answer = answer_validation(State(measured=results))
    assert answer.cards
    assert results.split(".")[0] in " ".join(answer.notes)
    assert math.isfinite(float(dict(answer.numbers).get("Kernels timed", "0").replace(",", "")))


def test_results_that_are_not_there_are_named():
    with pytest.raises(InputError, match="unknown results"):
        answer_validation(State(measured="toaster.2020-01-01"))


def test_errors_of_decoding_are_those_of_the_report():
    report = validated(next(each for each in measured_results().values() if validated(each)))
    rows = run_rows(report)
    assert len(rows) == report["summary"]["configurations"]
    middle = statistics.median(
        abs(row["predicted (tokens/s)"] / row["measured (tokens/s)"] - 1) for row in rows
    )
    assert middle == pytest.approx(report["summary"]["median_error_ratio"], abs=0.005)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"points": 3'])
def test_a_damaged_report_is_said(tmp_path, text):
    (tmp_path / REPORT).parent.mkdir()
    (tmp_path / REPORT).write_text(text)
    with pytest.raises(InputError, match="no validation report"):
        validated(tmp_path)
