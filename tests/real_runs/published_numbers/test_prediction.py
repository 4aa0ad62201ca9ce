"""Predictions of rows: laws, units, stated costs, refusals with reasons."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.laws.acceptance import geometric
from costmodel.passes.streaming import HOST_LINK_EFFICIENCY
from hardware_profiles.errors import InputError
from real_runs.published_numbers.answer import in_unit
from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.question import question_of
from real_runs.published_numbers.reading.sources import RowFacts
from real_runs.published_numbers.reported import reported_rows

pytestmark = pytest.mark.heavy


def one(row):
    (found,) = predictions([row])
    return found


def test_a_speedup_is_below_the_tokens_of_a_step_and_grows_with_them(row):
    found = [one(row(acceptance=f"tau={tokens}")).predicted for tokens in (2.0, 4.0, 6.0)]
    assert found == sorted(found)
    assert all(speedup < tokens for speedup, tokens in zip(found, (2.0, 4.0, 6.0), strict=True))


def test_value_speedup_and_baseline_belong_together(row):
    found = one(row(value=6.0, unit="ms/token", baseline=24.0, baseline_unit="ms/token"))
    assert found.predicted == pytest.approx(found.baseline / found.speedup)
    rate = one(row(value=100.0, unit="tok/s", baseline=40.0, baseline_unit="tok/s"))
    assert rate.predicted == pytest.approx(1e3 / found.predicted)
    assert rate.speedup == pytest.approx(rate.predicted / rate.baseline)


@given(st.floats(1.0, 20.0), st.floats(1e-4, 10.0), st.integers(1, 512))
def test_units_agree(tokens, step_s, batch):
    seconds = in_unit("s/token", tokens, step_s, batch)
    assert in_unit("ms/token (derived)", tokens, step_s, batch) == pytest.approx(1e3 * seconds)
    assert in_unit("tok/s total", tokens, step_s, batch) == pytest.approx(batch / seconds)
    assert in_unit("ktok/s", tokens, step_s, batch) == pytest.approx(1e-3 * batch / seconds)


def test_an_unknown_unit_is_no_answer(row):
    with pytest.raises(InputError, match="no unit"):
        in_unit("furlongs", 1.0, 1.0, 1)
    assert "no unit" in one(row(value=1.0, unit="furlongs", speedup=None)).reason


def test_a_stated_cost_stands_for_the_drafts(row):
    chain = {
        "system": "Sequoia",
        "target": "Llama2-7B",
        "draft": "JackFram/llama-68m",
        "shape": "tree size=64 depth=6",
        "acceptance": "tau=3.0",
        "value": 10.0,
        "unit": "ms/token",
    }
    cheap, dear = (
        one(row(**chain, draft_cost=f"{cost} ms/token")).predicted for cost in (0.5, 1.5)
    )
    assert dear - cheap == pytest.approx(5 * 1.0 / 3.0)  # five levels, three tokens
    assert one(row(**chain, draft_cost="68M")).predicted > 0.0


def test_a_draft_model_is_needed_where_its_cost_is_not_stated(row):
    changes = {
        "system": "Sequoia",
        "target": "Llama2-7B",
        "draft": "",
        "shape": "tree size=64 depth=6",
    }
    assert "names no draft model" in one(row(**changes)).reason
    assert one(row(**changes, draft_cost="0.5 ms/token")).predicted > 1.0


def test_a_rate_follows_the_geometric_law(row):
    chain = {"system": "Speculative sampling", "draft": "vicuna-68m", "shape": "gamma=3 chain"}
    asked = question_of(row(**(chain | {"system": "Speculative Sampling"}), acceptance="alpha=0.7"))
    assert asked.acceptance.tokens_per_step == pytest.approx(geometric(0.7, 3).tokens_per_step)


def test_a_target_that_is_not_priced_leaves_the_theorem(row):
    stated = {"shape": "gamma=7 chain", "acceptance": "alpha=0.75", "draft_cost": "c=0.02"}
    found = one(
        row(
            system="Speculative Decoding (Leviathan)",
            target="LaMDA 137B",
            draft="LaMDA 2B",
            hardware="TPU-v4",
            value=3.4,
            unit="x vs T5X",
            **stated,
        )
    )
    assert found.predicted == pytest.approx((1 - 0.75**8) / (1 - 0.75) / (7 * 0.02 + 1))
    assert "not priced" in found.remarks[0]


def test_tokens_of_a_tree_follow_from_rates_by_position_without_any_device(row):
    text = "tau=3.94; per-position alpha 0..4 = .79 .74 .72 .73 .67 (chain-measured)"
    found = one(
        row(
            system="EAGLE",
            hardware="unstated",
            acceptance=text,
            value=3.94,
            unit="tokens/step",
            speedup=None,
            shape="static tree 25 nodes depth 5 (4/8/8/3/2)",
        )
    )
    assert 3.0 < found.predicted < 6.0
    itself = one(row(acceptance="tau=3.2", value=3.2, unit="tokens/step", shape="chain gamma=5"))
    assert itself.predicted is None
    assert "the number itself" in itself.reason


def test_siblings_of_a_stated_vector(row):
    siblings = RowFacts(siblings=(0.634, 0.108, 0.057))
    wide, deep = (
        question_of(
            row(
                system="SpecInfer",
                target="Llama2-7B",
                draft="JackFram/llama-68m",
                acceptance="",
                own_facts=siblings,
                shape=shape,
            )
        ).acceptance.tokens_per_step
        for shape in ("3x1", "1x3")
    )
    assert wide == pytest.approx(1 + 0.634 + 0.108 + 0.057)
    assert deep == pytest.approx(1 + 0.634 + 0.634**2 + 0.634**3)


def test_weights_on_the_host_cost_the_link(row):
    changes = {
        "target": "Llama2-70B",
        "system": "Vanilla (in x)",
        "acceptance": "",
        "speedup": None,
        "value": 5.0,
        "unit": "s/token",
    }
    stated = one(row(**changes, hardware="RTX 4090 (CPU offload, 31.5 GB/s host->GPU)"))
    slower = one(row(**changes, hardware="RTX 4090 (CPU offload, 15.75 GB/s host->GPU)"))
    assert slower.predicted == pytest.approx(2.0 * stated.predicted, rel=0.02)
    assert stated.predicted == pytest.approx(138e9 / (HOST_LINK_EFFICIENCY * 31.5e9), rel=0.05)


def test_transformers_puts_layers_on_devices_one_after_another(row):
    one_device, several = (
        one(row(target="Llama2-chat-70B", devices=count)) for count in ("1", "4")
    )
    assert one_device.predicted == several.predicted
    assert any("one after another" in remark for remark in several.remarks)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hardware": "unstated"}, "names no hardware"),
        ({"batch": "any"}, "states no single batch"),
        ({"batch": ""}, "states no batch"),
        ({"acceptance": ""}, "states no acceptance"),
        ({"target": "Chinchilla 70B"}, "Chinchilla 70B: no model of that name"),
        ({"target": ""}, "names no model"),
        ({"system": "Fastest"}, "Fastest: no entry of the catalogue"),
        ({"system": "HADES"}, "out of scope"),
        ({"system": "Fast-dLLM"}, "sets its own pace"),
        ({"system": "Tree Attention"}, "an option of a deployment"),
        ({"precision": "INT4 nf4"}, "not priced"),
        ({"hardware": "RTX 4090 (KV offload)"}, "how much of the cache lies in the host"),
        ({"speedup": None}, "states no number"),
        ({"acceptance": "tau=9.5"}, "must lie in"),
        ({"problem": "has 2 cells"}, "has 2 cells"),
        ({"hardware": "A100 per caption / RTX 3090 per text"}, "more than one device"),
    ],
)
def test_what_cannot_be_predicted_says_why(row, changes, reason):
    found = one(row(**changes))
    assert found.predicted is None
    assert reason in found.reason


def test_a_changed_target_is_compared_with_the_unchanged_one(row):
    plain = {"acceptance": "", "shape": "", "source": "a compiled loop"}
    fewer_layers = one(row(system="Unified layer skipping", **plain))
    smaller_weights = one(row(system="2:4 structured sparsity", **plain))
    assert fewer_layers.predicted == fewer_layers.speedup > 1.1
    assert smaller_weights.speedup > 1.1
    assert one(row(system="Vanilla (in a paper)", **plain)).speedup == 1.0


def test_ratios_of_anything_but_times_are_refused(row):
    for unit in ("x bytes", "x fewer forward passes", "x fewer FLOPs"):
        assert "unit" in one(row(value=2.0, unit=unit)).reason
    assert one(row(value=2.0, unit="x vs T5X")).predicted > 1.0


def test_hardware_that_is_likely_is_assumed_aloud(row):
    for changes in (
        {"hardware": "unstated (A100 likely)"},
        {"hardware": "unstated", "own_facts": RowFacts(likely_device="A100")},
    ):
        found = one(row(**changes))
        assert found.predicted is not None
        assert any("a100-sxm-80 ASSUMED" in remark for remark in found.remarks)


def test_a_tree_of_another_system_is_that_of_the_rows_beside(row):
    own = row(system="EAGLE-2", shape="dynamic tree 60 nodes depth 5 top-k 10")
    both = row(system="SAM-Decoding+EAGLE-2", shape="SAM n_predicts=40 + EAGLE-2 tree")
    alone, beside = predictions([both])[0], predictions([own, both])[1]
    assert beside.predicted > alone.predicted  # five levels instead of the entry's seven
    assert beside.row is both


def test_verifying_on_the_host_is_lent_by_rows_of_the_same_publication_and_system(row):
    """Six milliseconds a round beside the pass, on whatever target."""
    own = row(
        system="LongSpec",
        source="arXiv:2502.17421 Table 5",
        target="LongChat-7B",
        acceptance="tau=4.0",
        draft_cost="draft 8.91 ms + target 25.63 ms + verify 6.00 ms per round",
        value=100.0,
        unit="ms/token",
        shape="tree beam [4,16,16,16,16] (68 nodes, depth 5)",
    )
    borrowing = replace(own, source="arXiv:2502.17421 Table 1", draft_cost="~8.91 ms/round on 7B")
    stated, lent = (each.predicted for each in predictions([own, borrowing]))
    assert lent == pytest.approx(stated)
    assert lent - one(borrowing).predicted == pytest.approx(6.0 / 4.0)


def test_numbers_of_the_catalogue_are_rows_and_are_answered():
    rows = reported_rows()
    assert len(rows) > 30
    found = predictions(rows)
    assert all((each.predicted is None) == bool(each.reason) for each in found)
    assert sum(each.predicted is not None for each in found) >= 12
    assert {row.system for row in reported_rows(["eagle-3"])} == {"EAGLE-3"}
