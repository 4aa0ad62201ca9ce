"""Tables of published numbers: how far off predictions are, and which comparisons come
out as published.

Rows that travel with the tests, then whole tables where they lie beside us. Bounds are what holds
today, rounded up; none of the constants behind them was fitted to these rows.
Where the goal is narrower it stands beside the bound.
"""

from dataclasses import replace
from statistics import median

import pytest
from scipy.stats import kendalltau

from app.answers.reproduction.reproduction import LARGE_RATIO, percentile
from real_runs.published_numbers.causes import cause_of
from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.reading.table import read_rows

pytestmark = pytest.mark.heavy

FILES = ("speculative_and_serving.csv", "diffusion_and_jacobi.csv")


@pytest.fixture(scope="module")
def answers(reference_data):
    paths = [reference_data / "published" / name for name in FILES]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"no published tables at {reference_data}")
    return predictions([row for path in paths for row in read_rows(path)])


@pytest.fixture(scope="module")
def numbers(published):
    """Predictions of the numbers that travel with the tests."""
    return predictions(read_rows(published / "numbers.csv"))


def sizes(found):
    return sorted(abs(each.error_ratio) for each in found if each.error_ratio is not None)


def absolute(found):
    return found.row.value is not None and not found.row.unit.startswith(("x ", "tokens/"))


def of(answers, system, words=""):
    return [
        each for each in answers if each.row.system.startswith(system) and words in each.row.source
    ]


@pytest.mark.heavy
def test_every_row_is_answered_or_says_why(answers):
    assert len(answers) == 989 + 299
    assert all((each.predicted is None) == bool(each.reason) for each in answers)
    assert all(each.predicted is None or each.predicted > 0.0 for each in answers)


def test_errors_of_rows_with_all_inputs(answers):
    full = [each for each in answers if each.row.group == "full"]
    numbers = [each for each in full if absolute(each)]
    measured = sizes([each for each in numbers if not each.computed])
    for name, found in (
        ("all", sizes(full)),
        ("absolute", sizes(numbers)),
        ("measured absolute", measured),
    ):
        print(
            f"\nfull, {name}: {len(found)} rows, median {median(found):.3f}, p90"
            f" {percentile(found, 0.9):.3f}"
        )
    assert len(measured) >= 180  # of masked models those whose prompts have a stated length
    assert median(sizes(full)) <= 0.12 and percentile(sizes(full), 0.9) <= 0.35
    assert median(sizes(numbers)) <= 0.12 and percentile(sizes(numbers), 0.9) <= 0.35
    assert median(measured) <= 0.1 and percentile(measured, 0.9) <= 0.35


def test_rows_with_all_inputs_that_are_far_off_have_a_cause(answers):
    far = [
        each
        for each in answers
        if each.row.group == "full" and abs(each.error_ratio or 0.0) > LARGE_RATIO
    ]
    print(f"\n{len(far)} rows of full inputs are over 30 % off")
    assert not [
        (each.row.line, each.row.system, each.row.prompt) for each in far if not cause_of(each.row)
    ]


@pytest.mark.parametrize("hardware", ["RTX 3090 24GB", "A100-80GB"])
def test_spec_bench_rankings(answers, hardware):
    own = [
        each
        for each in of(answers, "", "Spec-Bench")
        if each.row.hardware == hardware and each.predicted
    ]
    for target in {each.row.target for each in own}:
        pairs = [(each.row.speedup, each.predicted) for each in own if each.row.target == target]
        tau = kendalltau(*zip(*pairs, strict=True)).statistic
        print(f"\n{hardware}, {target}: {len(pairs)} systems, Kendall's tau {tau:.2f}")
        assert tau >= 0.8


def test_eagle_3_gains_less_at_larger_batches(numbers):
    """Acceptance of this chain is borrowed, so that levels are off; the fall with the batch is what
    passes say."""
    curve = [
        each for each in of(numbers, "EAGLE-3", "SGLang/vLLM") if each.row.shape == "chain gamma=3"
    ]
    found = [each.predicted for each in sorted(curve, key=lambda each: int(each.row.batch))]
    assert len(found) == 5
    assert found == sorted(found, reverse=True)


def test_magicdec_gains_more_at_larger_batches(numbers):
    grid = [each for each in of(numbers, "MagicDec", "Infini-AI-Lab") if each.predicted]
    found = [each.predicted for each in sorted(grid, key=lambda each: int(each.row.batch))]
    print(
        "\nMagicDec:"
        f" {[(each.row.batch, each.row.speedup, round(each.predicted, 2)) for each in grid]}"
    )
    assert len(found) == 3
    assert found == sorted(found)


def test_magicdecs_grid_of_batches_and_contexts(numbers):
    """Acceptance of Llama 2 is not stated: that of Llama 3.1 stands in, so that the order counts
    and not the level."""
    rows = [
        each.row
        for each in of(numbers, "MagicDec", "Infini-AI-Lab")
        if each.row.target == "Llama2-7B-32K"
    ]
    own = [row for row in rows if row.draft.startswith("self-speculation")]
    found = predictions([replace(row, acceptance="alpha=0.81") for row in own])
    grid = [
        (row.batch, row.prompt, row.speedup, each.predicted)
        for row, each in zip(own, found, strict=True)
    ]
    print(f"\nMagicDec: batch, context, published, predicted: {grid}")
    assert len(grid) == 4
    assert kendalltau(
        [cell[2] for cell in grid], [cell[3] for cell in grid]
    ).statistic == pytest.approx(1.0)


@pytest.mark.parametrize(("temperature", "least"), [("0", 0.5), ("0.6", 0.8)])
def test_sequoias_sweep_of_chains_side_by_side(answers, temperature, least):
    """The vector is of sampling at 0.6; greedy drafts accept more, and longer ones pay there."""
    sweep = [
        each
        for each in of(answers, "SpecInfer", "Table ")
        if each.row.data == "C4 (tree sweep)" and each.row.temperature == temperature
    ]
    pairs = [(each.row.speedup, each.predicted) for each in sweep]
    best = max(sweep, key=lambda each: each.predicted).row.speedup
    tau = kendalltau(*zip(*pairs, strict=True)).statistic
    most = max(each.row.speedup for each in sweep)
    print(
        f"\nT = {temperature}: tau {tau:.2f}; the shape that is predicted best reaches {best} of"
        f" {most}"
    )
    assert len(pairs) == 20
    assert tau >= least
    assert best >= 0.97 * most


def test_sequoias_milliseconds(numbers):
    rows = [each for each in of(numbers, "Sequoia", "Table 1/3") if each.row.target == "Llama2-7B"]
    assert len(rows) == 8
    assert sizes(rows)[-1] <= 0.25


def test_schedules_of_chunked_prompts(numbers):
    """SARATHI's figures 8 to 10 and table 4 on an A6000: decodes that ride on chunks, and whole
    schedules."""
    found = [
        each
        for each in of(numbers, "SARATHI", "2308.16369")
        if not each.row.unit.startswith("ms/token")
    ]
    for each in found:
        print(
            f"\n{each.row.data}, batch {each.row.batch}, {each.row.prompt}: {each.error_ratio:+.1%}"
        )
    assert len(found) == 7
    assert sizes(found)[-1] <= 0.13 and median(sizes(found)) <= 0.08
    seconds = [each for each in found if each.row.unit == "s"]
    assert all(each.baseline == pytest.approx(each.row.baseline, rel=0.07) for each in seconds)


def test_speculative_decoding_on_t5(numbers):
    """Table 2 of Leviathan et al.: T5-XXL, three drafts, two temperatures, their times and
    acceptance as stated there.

    The source computes 3.2, 3.3, 2.5, 2.3, 2.4 and 2.0 from the same inputs by its theorem 3.8 and
    measures less with the largest draft, for which it blames its implementation.
    """
    rows = [
        each for each in of(numbers, "Speculative Decoding", "Table 2") if each.row.group == "full"
    ]
    for each, theorem in zip(rows, (3.2, 3.3, 2.5, 2.3, 2.4, 2.0), strict=True):
        print(
            f"\n{each.row.draft}, T = {each.row.temperature}: {each.row.published} published, "
            f"{each.predicted:.2f} predicted, {theorem} by the source's theorem"
        )
        assert "not priced" not in " ".join(each.remarks)
        assert each.predicted == pytest.approx(theorem, rel=0.05)
        assert each.predicted <= 1.01 * theorem  # a pass over K + 1 tokens costs no less than one
    assert len(rows) == 6
    assert median(sizes(rows)) <= 0.2
    small = [each for each in rows if "large" not in each.row.draft]
    assert sizes(small)[-1] <= 0.2
    assert all(cause_of(each.row) for each in rows if abs(each.error_ratio) > 0.3)


def test_triforce_slows_down_with_the_temperature(numbers):
    rows = [each for each in of(numbers, "TriForce", "Table 2") if each.predicted]
    ratios = [each.predicted / each.row.speedup for each in rows]
    found = [each.predicted for each in rows]
    assert found == sorted(found, reverse=True)
    assert max(ratios) / min(ratios) <= 1.08  # levels are off by one factor, the curve is not


def test_triforce_with_its_cache_on_the_host(numbers):
    """Steps of seconds: 31 and 64 GB of cache come over the links of one and two devices."""
    rows = {each.row.devices: each for each in of(numbers, "TriForce", "Table 3")}
    print(
        {
            count: (each.row.published, round(each.predicted), each.baseline)
            for count, each in rows.items()
        }
    )
    assert rows["1"].predicted == pytest.approx(312, rel=0.15)
    assert rows["2"].predicted == pytest.approx(108, rel=0.15)
    assert rows["2"].baseline == pytest.approx(840, rel=0.15)


def test_weights_over_the_link(answers):
    """DeepSpeed's baseline fetches all layers of a 70B model for every token."""
    rows = [
        each
        for each in of(answers, "", "2402.12374")
        if "CPU offload" in each.row.hardware and each.predicted
    ]
    assert len(rows) == 4
    assert all(each.baseline == pytest.approx(5.7, rel=0.1) for each in rows)
    assert sizes(rows)[-1] <= 0.25


def test_trees_win_over_chains_side_by_side_as_published(answers):
    """Sequoia's tree against SpecInfer's chains on the same texts: on A100, and on L40 with all
    weights in memory."""
    rows = of(answers, "Sequoia", "Table 1/3") + of(answers, "Sequoia", "Table 4")
    others = of(answers, "SpecInfer (baseline in Sequoia)", "")
    seen = 0
    for tree in rows:
        key = (tree.row.source, tree.row.target, tree.row.data, tree.row.temperature)
        chains = next(
            each
            for each in others
            if (each.row.source, each.row.target, each.row.data, each.row.temperature) == key
        )
        assert (tree.speedup > chains.speedup) == (tree.row.speedup > chains.row.speedup), key
        seen += 1
    assert seen >= 18


def test_prompt_decodings_passes(numbers):
    rows = of(numbers, "PPD", "Table 1")
    plain = {each.row.target: each for each in of(numbers, "Vanilla (in PPD)")}
    assert len(rows) == 2
    for each in rows:
        longer = each.row.published / plain[each.row.target].row.published
        ours = each.predicted / plain[each.row.target].predicted
        print(
            f"\n{each.row.target}: {longer:.2f} times plain decoding published, {ours:.2f}"
            " predicted"
        )
        assert ours == pytest.approx(longer, rel=0.12)


def test_token_recycling_on_two_cards(numbers):
    rows = [
        each
        for each in of(numbers, "Token Recycling", "Spec-Bench")
        if each.row.target == "Vicuna-7B-v1.3"
    ]
    print({each.row.hardware: (each.row.speedup, round(each.predicted, 2)) for each in rows})
    assert len(rows) == 2
    assert sizes(rows)[-1] <= 0.2


def test_pard_in_vllm(numbers):
    """Plain decoding is met; of twelve positions acceptance is stated of four, and the others are
    taken to go on so."""
    assert sizes(of(numbers, "Vanilla (in PARD)"))[-1] <= 0.02
    (row,) = [each for each in of(numbers, "PARD", "2504.18583") if each.predicted]
    print(f"\nPARD: {row.row.value} tokens/s published, {row.predicted:.0f} predicted")
    assert row.error_ratio == pytest.approx(0.0, abs=0.4)


def test_specvlms_order_of_models_and_texts(answers):
    """Levels are end to end, with prompts and images, and met on an AMD device with products of its
    own; the order of 27 cells is that of acceptance and cost. With the longer texts of LLaVA-1.6
    speedups fall below LLaVA-1.5's, where measured ones stay alike: an order of 0.57, not 0.66 as
    with the products of an H100, which put all of them a fifth too high."""
    rows = of(answers, "SpecVLM", "2509.11815")
    tau = kendalltau(
        [each.row.speedup for each in rows], [each.predicted for each in rows]
    ).statistic
    print(
        f"\nSpecVLM: {len(rows)} cells, Kendall's tau {tau:.2f}, median error"
        f" {median(sizes(rows)):.3f}"
    )
    assert len(rows) >= 27 and tau >= 0.55
    assert median(sizes(rows)) <= 0.07


def test_longspec_slows_down_with_the_prompt(answers):
    buckets = [each for each in of(answers, "LongSpec", "Table 5") if each.predicted]
    longest_last = sorted(
        buckets, key=lambda each: int(each.row.prompt.partition("-")[0].rstrip("k"))
    )
    steps = [
        float(each.row.acceptance.partition("=")[2]) / each.predicted for each in longest_last
    ]  # tau over tok/s
    assert len(steps) == 6 and steps == sorted(steps)
    assert median(sizes(of(answers, "LongSpec", "2502.17421"))) <= 0.08


def test_falcons_draft_passes(numbers):
    """Four passes for eight levels; whether its mean counts the bonus token is not stated."""
    rows = of(numbers, "Falcon", "2412.12639")
    assert len([each for each in rows if each.predicted]) == 6
    assert median(sizes(rows)) <= 0.2


@pytest.mark.parametrize(
    ("system", "words", "count", "most"),
    [
        ("MagicDec", "2502.17421", 13, 0.18),
        ("DySpec", "2410.11744", 18, 0.08),
        ("Hydragen", "2402.05099", 39, 0.03),
        ("Cost table", "2507.19427 Table", 42, 0.01),
        ("Set Block", "roofline", 14, 0.01),
        ("Attention layer", "2507.19427", 4, 0.06),
    ],
)
def test_median_errors_of_systems(answers, system, words, count, most):
    found = sizes(of(answers, system, words))
    print(f"\n{system}: {len(found)} rows, median {median(found):.3f}, largest {found[-1]:.3f}")
    assert len(found) >= count
    assert median(found) <= most
