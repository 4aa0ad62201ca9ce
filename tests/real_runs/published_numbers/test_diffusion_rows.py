"""Published speeds of diffusion and Jacobi decoding beside predictions from their own inputs.

Sources that state no card count as ratios. Bounds are what holds today; where the goal is narrower
it stands beside.
"""

import re
from dataclasses import replace
from statistics import median

import pytest

from costmodel.answers.estimate import needed_bytes
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refining import refined
from hardware_profiles.units import GIB
from real_runs.published_numbers.forwards import canvas_method, method_of_row
from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.reading.names import model_of
from real_runs.published_numbers.reading.table import read_rows

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def rows(published):
    return read_rows(published / "diffusion_numbers.csv")


@pytest.fixture(scope="module")
def answers(rows):
    return predictions(rows)


@pytest.fixture(scope="module")
def whole_answers(reference_data):
    return predictions(read_rows(reference_data / "published" / "diffusion_and_jacobi.csv"))


def of(answers, system, source=""):
    return [
        each for each in answers if each.row.system.startswith(system) and source in each.row.source
    ]


def ratios(found):
    return [each.predicted / each.row.published for each in found]


def milliseconds(row):
    """(static, own) ms of a step, as the notes have them."""
    stated = re.search(r"ms/step ([\d.]+) -> ([\d.]+)", row.notes)
    return float(stated[1]), float(stated[2])


@pytest.mark.heavy
def test_every_row_of_the_whole_table_has_an_error_or_a_reason(whole_answers):
    answers = whole_answers
    assert len(answers) == 299
    assert all((each.predicted is None) == bool(each.reason) for each in answers)
    print(f"\n{sum(each.predicted is not None for each in answers)} of 299 rows are predicted")
    assert sum(each.predicted is not None for each in answers) >= 80
    assert not [each for each in answers if "not priced" in each.reason]


def test_milliseconds_of_dparallels_steps(answers):
    """The card is not stated: a step against the static one of the same table, whose forwards are
    the same."""
    found = of(answers, "dParallel (entropy", "czg1225")
    assert len(found) == 6
    for each in found:
        static, own = milliseconds(each.row)
        tokens = 256 / float(each.row.acceptance)
        predicted = static * tokens / each.speedup
        print(f"\n{each.row.target} {each.row.data}: {own} ms published, {predicted:.1f} predicted")
        assert predicted == pytest.approx(own, rel=0.15)
        assert each.speedup == pytest.approx(each.row.speedup, rel=0.15)


def test_dparallels_steps_on_the_card_that_one_static_row_tells(rows):
    """Of cards in the catalogue the one whose static step is nearest to the first table's; the six
    steps follow."""
    six = [
        row
        for row in rows
        if row.system.startswith("dParallel (entropy") and "czg1225" in row.source
    ]
    first = next(row for row in six if "LLaDA" in row.target and "GSM8K" in row.data)

    def step_ms(row, card, steps):
        tokens = 256 / float(steps)
        asked = replace(row, hardware=card, acceptance=str(steps), value=1.0, unit="tok/s")
        return 1e3 * tokens / predictions([asked])[0].predicted

    cards = ("RTX A5000", "RTX A6000", "RTX 4090", "RTX 6000 Ada", "L40S", "A100", "H100")
    wanted = milliseconds(first)[0]
    card = min(cards, key=lambda each: abs(step_ms(first, each, 256) / wanted - 1.0))
    found = [step_ms(row, card, row.acceptance) / milliseconds(row)[1] for row in six]
    print(f"\n{card}: {[round(each, 3) for each in found]} of the published ms per step")
    assert found == pytest.approx([1.0] * 6, rel=0.15)  # with prompts as data sets have them


def test_fast_dllm_on_an_h100(answers):
    (found,) = of(answers, "Fast-dLLM DualCache", "d3LLM")
    assert (found.row.published, found.method) == (114.29, "fast-dllm")
    print(f"\n{found.row.published} tokens/s published, {found.predicted:.1f} predicted")
    assert found.predicted == pytest.approx(114.29, rel=0.15)


@pytest.mark.parametrize(
    ("system", "target", "count", "middle", "worst"),
    [
        ("Fast-dLLM DualCache", "", 9, 0.08, 0.10),
        ("dKV-Cache", "", 11, 0.25, 0.45),
        ("dLLM-Cache", "LLaDA", 3, 0.45, 0.45),
    ],
)
def test_caches_whose_code_keeps_the_host_busy(whole_answers, system, target, count, middle, worst):
    """On an RTX 4090 by the same table as below, with prompts told by the static rows beside them."""
    found = [each for each in of(whole_answers, system, "OpenMOSS") if target in each.row.target]
    errors = sorted(abs(ratio - 1.0) for ratio in ratios(found))
    print(f"\n{system}: {[f'{ratio:.2f}' for ratio in ratios(found)]}")
    assert len(found) == count
    assert median(errors) <= middle and errors[-1] <= worst


FORWARDS_OFF = {
    "d3LLM multi-block": 0.35,
    ("d3LLM SGLang FullAttnMultiBlock", "1"): 0.22,
    ("d3LLM SGLang FullAttnMultiBlock", "4"): 0.52,
}
"""How far the ratios of two cards are off. The goal is 0.15.

Transformers: 21 ms on H100, 39 on A100. The H100 waits for its host here (19 ms, of which the
device works for 8), and the A100 computes for 22 ms with the prompt of 100 tokens that is assumed:
the ratio is one of arithmetic over launches, and goes with the prompt, which is not stated. SGLang:
17 and 39 ms; both cards compute whole canvases here, the A100 for three times as long, with any
prompt. 2.2 would take some 8 ms of every forward that are the same on both cards.
"""


def cards_of_d3llm(answers):
    """{(system, batch): {card: answer}} of the systems that ran on both cards."""
    pairs = {}
    for each in of(answers, "d3LLM", "d3LLM"):
        row = each.row
        card = "H100" if "H100" in row.hardware else "A100" if "A100" in row.hardware else ""
        pairs.setdefault((row.system, row.target, row.batch), {})[card] = each
    return {key: pair for key, pair in pairs.items() if {"H100", "A100"} <= set(pair)}


def test_forwards_of_d3llm_on_two_cards(answers):
    both = cards_of_d3llm(answers)
    assert len(both) == 3
    for (system, target, batch), pair in both.items():
        stated = pair["H100"].row.published / pair["A100"].row.published
        ours = pair["H100"].predicted / pair["A100"].predicted
        print(f"\n{system} {target}, batch {batch}: {stated:.2f} published, {ours:.2f} predicted")
        most = FORWARDS_OFF.get(system, FORWARDS_OFF.get((system, batch)))
        assert ours == pytest.approx(stated, rel=most)
        assert 1.0 < ours < 3.5  # of the cards' launches, and of their arithmetic


def test_forwards_of_d3llm_with_the_prompt_that_one_card_tells(answers):
    """The prompt with which the A100 is as fast as stated: the H100 follows."""
    ((_, pair),) = [
        item for item in cards_of_d3llm(answers).items() if item[0][0] == "d3LLM multi-block"
    ]

    def tokens_per_s(card, prompt):
        return predictions([replace(pair[card].row, prompt=str(prompt))])[0].predicted

    lengths = range(100, 900, 50)
    prompt = min(
        lengths, key=lambda each: abs(tokens_per_s("A100", each) / pair["A100"].row.published - 1.0)
    )
    found = tokens_per_s("H100", prompt) / pair["H100"].row.published
    print(
        f"\nwith a prompt of {prompt} tokens the H100's forwards are {found:.2f} of those published"
    )
    assert found == pytest.approx(1.0, rel=0.15)


def test_milliseconds_of_image_steps(answers):
    lpd, arpg = of(answers, "LPD"), of(answers, "ARPG")
    assert (len(lpd), len(arpg)) == (4, 2)
    for each in (*lpd, *arpg):
        print(
            f"\n{each.row.system} {each.row.data}: {each.row.published} ms published,"
            f" {each.predicted:.1f} predicted"
        )
    *most, worst = sorted(abs(each - 1.0) for each in ratios(lpd))
    assert most[-1] <= 0.15
    assert worst <= 0.17  # the goal is 0.15: its 0.66 s are stated to 1.5 %
    assert ratios(arpg) == pytest.approx([1.0] * 2, rel=0.15)


@pytest.mark.parametrize(
    ("system", "source", "count"),
    [
        ("Jacobi Forcing", "JacobiForcing", 2),
        ("CLLM", "JacobiForcing", 1),
        ("Lookahead ablation", "2402.02057", 2),
    ],
)
def test_jacobi_and_lookahead_with_stated_tokens_per_step(answers, system, source, count):
    """Prompts are not stated: against plain decoding of the same source."""
    found = of(answers, system, source)
    assert len(found) == count
    for each in found:
        print(f"\n{each.row.system}: {each.row.speedup} published, {each.speedup:.2f} predicted")
        assert each.speedup == pytest.approx(each.row.speedup, rel=0.15)


def test_pruned_caches_at_one_token_a_step(answers):
    """Seven rows of cache costs alone; their prompts are told by the static rows beside them."""
    found = of(answers, "Sparse-dLLM", "OpenMOSS")
    errors = sorted(abs(each - 1.0) for each in ratios(found))
    print(f"\nSparse-dLLM: {[f'{each:.2f}' for each in ratios(found)]}")
    assert len(found) == 7
    assert median(errors) <= 0.10
    assert errors[-1] <= 0.20


def test_memory_of_static_and_pruned_canvases(answers):
    """GiB at the peak, with the prompts that the static rows tell: means, where a peak is of the
    longest.

    Dream's static code holds more, which its caches do without.
    """
    found = of(answers, "Sparse-dLLM", "OpenMOSS")
    for each in found:
        static_gib, own_gib = (
            float(text)
            for text in re.search(r"peak mem GB ([\d.]+) -> ([\d.]+)", each.row.notes).groups()
        )
        prompt = float(re.search(r"a prompt of (\d+) tokens", " ".join(each.remarks))[1])
        own = method_of_row(each.row, 1.0)
        names = DeploymentNames(
            model=model_of(each.row.target).name, device="rtx-4090", engine="transformers"
        )
        setting = build_setting(DecodingConfiguration(deployment=names, method=own.slug))
        for method, stated in ((own, own_gib), (canvas_method(256, 32, 1.0), static_gib)):
            asked = replace(setting, drafter=replace(setting.drafter, method=method))
            ours = float(needed_bytes(asked, refined(method), batch=1, context=prompt)) / GIB
            print(
                f"\n{method.slug} {each.row.target} {each.row.data}: {stated} GiB published,"
                f" {ours:.2f} predicted"
            )
            loose = method is not own and "Dream" in each.row.target
            assert ours == pytest.approx(stated, rel=0.12 if loose else 0.025)


def test_prefix_caches_against_whole_canvases(answers):
    found = [
        each.speedup / each.row.speedup
        for each in of(answers, "Fast-dLLM +PrefixCache", "NVlabs")
        if each.speedup
    ]
    print(f"\nFast-dLLM's prefix cache: {[f'{each:.2f}' for each in found]}")
    assert len(found) == 11
    assert median(abs(each - 1.0) for each in found) <= 0.15
    assert max(abs(each - 1.0) for each in found) <= 0.35


def test_blocks_of_an_engine_with_captured_passes(answers):
    found = ratios(of(answers, "", "2604.08302"))
    print(f"\nLLaDA2.0-mini on two H200: {[f'{each:.2f}' for each in found]}")
    assert len(found) == 6
    # some experts are chosen more often than others, so that blocks visit fewer; were all chosen
    # alike, speeds would be 5 to 13 % too low
    assert all(1.0 <= each <= 1.15 for each in found)
