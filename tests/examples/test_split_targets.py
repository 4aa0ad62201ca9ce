"""Speculation over tensor-parallel devices and pipeline stages: what does the link make of it?

Asked in vllm#44697, sglang#6949 and sglang#39634, and of prompts on workers of their own in
InferenceX#2432 and sglang#32207. Measured there: EAGLE gained 1.43 on one device and lost on four
(sglang#6949); two stages of two devices over sockets gained 2.34 (vllm#50514). A setup with MTP on
four stages lost a quarter (vllm#44697), by a fixed time a round that no link explains.
"""

import csv

import pytest

ASKED = (
    "--model llama-3.1-70b --dtype fp8 --device l40s --drafter eagle-3 --draft-tokens 3 --context"
    " 1024"
)
LINKS = (64e9, 8.3e9, 2e9)


def speedups(user, plan, batch):
    rows = (
        user(
            f"rooftree predict {ASKED} {plan} --batch {batch} --set"
            f" device.link_bytes_per_s={link:g} --json"
        ).answer["predictions"][0]
        for link in LINKS
    )
    return [row["speedup"] for row in rows]


def test_reductions_over_a_slow_link_eat_the_gain_and_stages_do_not(user):
    """Every layer reduces the rows of all drafts; a stage hands over one vector a row."""
    tensor, stages = speedups(user, "--tp 4", 16), speedups(user, "--pp 4", 16)
    assert tensor == sorted(tensor, reverse=True) and tensor[0] > 2.0 and 1.0 < tensor[-1] < 1.3
    assert stages == pytest.approx([stages[0]] * 3, rel=0.01)
    alone = speedups(user, "--tp 4", 1)
    assert alone[-1] / alone[0] > tensor[-1] / tensor[0], "one request has few rows to reduce"


def test_two_stages_of_two_devices_gain_what_was_measured(user, published):
    with (published / "tracker_numbers.csv").open(newline="", encoding="utf-8") as lines:
        (measured,) = [row for row in csv.DictReader(lines) if "50514" in row["source"]]
    gain = speedups(user, "--tp 2 --pp 2", 1)[1]
    assert gain == pytest.approx(float(measured["value"]), rel=0.15), (
        "the device is not named there"
    )


def test_a_fixed_time_a_round_can_be_stated_and_turns_the_gain_into_a_loss(user, tmp_path):
    (tmp_path / "slow.toml").write_text(
        'like = "vllm"\n[overheads."*"]\ndraft_us = 25000\n'
        'source = "vllm issue 44697: a fixed 25 ms a round"\n'
    )
    line = (
        "rooftree predict --model qwen3.5-35b-a3b --device a100-pcie-40 --pp 4 --method mtp"
        " --acceptance 0.93 --draft-tokens 2 --batch 1 --json"
    )
    usual, slow = (
        user(f"{line} --engine {engine}").answer["predictions"][0]["speedup"]
        for engine in ("vllm", "slow.toml")
    )
    assert usual > 1.5 and slow < 1.0


def test_workers_of_their_own_read_prompts_for_the_drafter_too(user):
    line = (
        "rooftree capacity --model llama-3.1-8b --device h100-sxm --rate 20 --prompt-tokens 4096"
        " --output-tokens 256 --disaggregate --drafter eagle-3 --json"
    )
    apart = {row["method"]: row for row in user(line).answer["plans"] if row.get("prompt_workers")}
    assert set(apart) == {"plain-decoding", "eagle-3"}
    decoding = [apart[method]["decode_workers"] for method in ("eagle-3", "plain-decoding")]
    assert decoding[0] <= decoding[1] and apart["eagle-3"]["prompt_workers"] >= 3
