"""Shipped constants against public tables: errors on the rows that they were not fitted to, by
device and operation.

Constants were fitted to a quarter of the rows that pass the filters, or, of the quarter of the
B200's tables that is at hand, to three quarters; every number below belongs to the other rows.
"""

import numpy as np
import pytest

from costmodel.calibration.calibrate import calibrate
from costmodel.calibration.tables import read_all
from hardware_profiles.loader import load_device
from tests.costmodel.calibration.reference_scores import reference_scores

pytestmark = pytest.mark.heavy

# target of median and ninetieth percentile where one is set; what a change must not exceed; fewest
# scored rows
BOUNDS = {
    ("h100-sxm", "gemm"): ((0.04, 0.13), (0.04, 0.13), 4000),
    ("h100-sxm", "attention_generation"): ((0.05, 0.15), (0.05, 0.15), 2500),
    ("h100-sxm", "attention_context"): (None, (0.08, 0.24), 6600),
    ("h100-sxm", "mla_generation"): (None, (0.05, 0.20), 400),
    ("h100-sxm", "moe"): ((0.06, 0.20), (0.036, 0.15), 3600),
    ("h100-sxm", "vllm"): ((0.10, 0.25), (0.10, 0.25), 30),
    ("h100-sxm", "trtllm"): ((0.10, 0.25), (0.10, 0.25), 30),
    ("a100-sxm-80", "gemm"): ((0.04, 0.13), (0.04, 0.13), 4700),
    ("a100-sxm-80", "attention_generation"): ((0.05, 0.15), (0.05, 0.15), 1000),
    ("a100-sxm-80", "attention_context"): (None, (0.075, 0.26), 3400),
    ("a100-sxm-80", "mla_generation"): (None, (0.015, 0.07), 400),
    ("a100-sxm-80", "moe"): ((0.06, 0.20), (0.03, 0.135), 2800),
    ("a100-sxm-80", "vllm"): ((0.10, 0.25), (0.10, 0.25), 30),
    ("a100-sxm-80", "trtllm"): ((0.10, 0.25), (0.16, 0.34), 30),
    ("b200-sxm", "gemm"): ((0.04, 0.13), (0.04, 0.13), 200),
    ("b200-sxm", "attention_generation"): ((0.05, 0.15), (0.03, 0.10), 150),
    ("b200-sxm", "attention_context"): (None, (0.06, 0.17), 550),
    ("b200-sxm", "mla_generation"): (None, (0.05, 0.12), 20),
    ("b200-sxm", "moe"): (None, (0.06, 0.31), 200),
    ("b200-sxm", "gemm fp8"): (None, (0.07, 0.30), 100),
    ("b200-sxm", "mla_generation fp8"): (None, (0.05, 0.13), 20),
    ("b200-sxm", "moe fp8"): ((0.06, 0.20), (0.045, 0.15), 150),
    ("b200-sxm", "gemm fp4"): (None, (0.06, 0.14), 70),
    ("a100-sxm-80--flashinfer", "attention_generation"): ((0.05, 0.15), (0.065, 0.15), 5000),
    ("a100-sxm-80--flashinfer", "attention_verify"): ((0.06, 0.20), (0.06, 0.20), 3000),
    ("rtx-pro-6000", "attention_generation"): ((0.05, 0.15), (0.05, 0.15), 80),
    ("rtx-pro-6000", "attention_verify"): ((0.06, 0.20), (0.06, 0.20), 28_000),
}
# targets that are not reached: a dozen rows of TensorRT-LLM's reductions on A100 and FlashInfer's
# decode attention
MISSED = {("a100-sxm-80", "trtllm"), ("a100-sxm-80--flashinfer", "attention_generation")}
# operations whose intervals hold 75 to 85 % of the rows that nothing was fitted to; the dozen rows
# behind each library of reductions do not tell that well, nor do the 29 of decode attention on RTX
# PRO 6000 or a sixteenth of the B200's
FEW = {
    ("rtx-pro-6000", "attention_generation"),
    *(key for key in BOUNDS if key[0] == "b200-sxm" and key[1] != "moe"),
}
HELD = [key for key in BOUNDS if key[1] not in ("vllm", "trtllm") and key not in FEW]
# attention over latent caches has 150 rows in its quarter: over seeds of the split, 0.79 to 0.90 of
# the others
MOST_HELD = {("a100-sxm-80", "mla_generation"): 0.88}
# the full width stays within three times the median error but where errors are those of a Gaussian
# (3.8) or have two modes (products on H100: one row in six takes an eighth more, at any size; expert
# layers on B200: one row in six is of a later release and takes 40 us more)
WIDE = {
    ("h100-sxm", "gemm"): 5.5,
    ("a100-sxm-80", "gemm"): 3.6,
    ("a100-sxm-80", "attention_generation"): 3.7,
    ("rtx-pro-6000", "attention_verify"): 3.7,
    ("b200-sxm", "moe"): 3.3,
}


def _target(device, part):
    target = BOUNDS.get((device, part), (None,))[0]
    return "-" if target is None else f"{target[0]:.0%}/{target[1]:.0%}"


@pytest.fixture(scope="module")
def scores(reference_data):
    found = reference_scores(reference_data)
    print()
    for (name, label), score in found.items():
        print(
            f"{name:24} {label:22} rows {score.rows:6} used {score.rows_used:6} "
            f"fitted {score.rows_used - score.rows_scored:5} scored {score.rows_scored:6} "
            f"median {score.median:6.1%} p90 {score.p90:6.1%} inside {score.coverage:4.0%} "
            f"width/error {score.width_ratio:5.2f} target {_target(name, label)} {score.form}"
        )
    return found


@pytest.mark.parametrize(("device", "part"), BOUNDS)
def test_errors_on_rows_that_were_not_fitted(scores, device, part):
    target, (median, p90), rows = BOUNDS[device, part]
    score = scores[device, part]
    assert score.rows_scored >= rows
    assert score.median <= median
    assert score.p90 <= p90
    if target is not None:
        assert (score.median <= target[0] and score.p90 <= target[1]) == (
            (device, part) not in MISSED
        )


@pytest.mark.parametrize(("device", "part"), HELD)
def test_intervals_hold_four_fifths_of_rows_that_were_not_fitted(scores, device, part):
    score = scores[device, part]
    assert 0.75 <= score.coverage <= MOST_HELD.get((device, part), 0.85)
    assert score.width_ratio <= WIDE.get((device, part), 3.0)
    assert score.width_ratio / 2.0 <= 3.0


def test_which_kernels_split_the_cache(scores):
    assert scores["rtx-pro-6000", "attention_verify"].form == "unsplit"
    assert scores["a100-sxm-80--flashinfer", "attention_verify"].form == "split"


def test_two_halves_of_a_table_agree_on_the_constants(reference_data):
    """Another seed fits another quarter, and ends near the same place."""
    tables = read_all([reference_data / "kernels" / "attn_gen_bf16_a100_sxm.csv"])
    first, second = (calibrate(tables, load_device("a100-sxm-80"), seed=seed) for seed in (1, 2))
    for name in ("attention.tile_s", "attention.wave_s", "attention.wave_ratio"):
        ratio = first.device.constants.number(name) / second.device.constants.number(name)
        assert np.log(ratio) == pytest.approx(0.0, abs=0.25), name
    medians = [each.scores["attention_generation"].median for each in (first, second)]
    assert max(medians) < 0.05
