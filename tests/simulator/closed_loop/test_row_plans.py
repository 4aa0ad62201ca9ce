"""What the width columns of a table mean: tensor groups, attention's copies, experts, and two kinds
of workers."""

import pytest

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from simulator.closed_loop.columns import read_columns
from simulator.closed_loop.launch_settings import LaunchName
from simulator.closed_loop.row_plans import plan_of_row, users_of_row
from simulator.closed_loop.worker_counts import Launched, launched_plan, published_launches

FP8 = Precision(weights="fp8", activations="fp8")
TWO_KINDS = {
    "mode": "disagg",
    "prefill_num_workers": 1,
    "prefill_attention_dp_size": 4,
    "prefill_tp_size": 1,
    "prefill_moe_ep_size": 4,
    "decode_num_workers": 5,
    "decode_tp_size": 8,
    "decode_moe_ep_size": 8,
}


def plan_of(model="deepseek-v3", device="h200-sxm", engine="tensorrt-llm", **columns):
    row = read_columns(columns, file="t.csv", row=0)
    return row, plan_of_row(row, load_model(model), load_device(device), FP8, engine=engine)


@pytest.mark.parametrize(
    ("columns", "plan"),
    [
        ({}, "1xtp1"),
        ({"tp_size": 4}, "1xtp4"),
        ({"tp_size": 8, "moe_tp_size": 1, "moe_ep_size": 8}, "1xtp8"),
        ({"moe_tp_size": 2, "moe_ep_size": 4}, "1xtp8"),
        ({"tp_size": 2, "pp_size": 2}, "1xtp2pp2"),
        ({"tp_size": 1, "attention_dp_size": 8, "moe_ep_size": 8, "moe_tp_size": 1}, "1xep8dp8"),
        ({"tp_size": 2, "attention_dp_size": 4, "moe_tp_size": 8, "moe_ep_size": 1}, "1xtp2ep8dp4"),
        ({"tp_size": 1, "attention_dp_size": 4, "moe_tp_size": 0, "moe_ep_size": 0}, "1xep4dp4"),
    ],
)
def test_widths_say_how_a_worker_is_spread(columns, plan):
    assert str(plan_of(**columns)[1].decode) == plan


def test_a_width_that_was_multiplied_by_the_experts_is_divided_again():
    squared = {"moe_tp_size": 8, "moe_ep_size": 8}
    assert str(plan_of(tp_size=64, **squared)[1].decode) == "1xtp8"
    assert str(plan_of(tp_size=1, attention_dp_size=64, **squared)[1].decode) == "1xep8dp8"
    assert (
        str(plan_of(tp_size=16, moe_tp_size=1, moe_ep_size=16)[1].decode) == "1xtp16"
    )  # two nodes, as stated
    assert (
        str(plan_of(device="gb200", tp_size=64, **squared)[1].decode) == "1xtp64"
    )  # 72 devices are one node


def test_a_divided_width_must_hold_the_model():
    stated = {"tp_size": 16, "moe_tp_size": 4, "moe_ep_size": 4}
    assert str(plan_of(model="qwen3-30b-a3b", **stated)[1].decode) == "1xtp4"
    assert str(plan_of(**stated)[1].decode) == "1xtp16"


def test_two_kinds_of_workers_are_read_side_by_side():
    _, plan = plan_of(**TWO_KINDS)
    assert (str(plan.prefill), str(plan.decode), plan.devices) == ("1xep4dp4", "5xtp8", 44)
    assert (plan.prefill.plan.backend, plan.decode.plan.backend) == ("nccl", "vllm")


UNCOUNTED = {
    "mode": "disagg",
    "isl": 8192,
    "osl": 1024,
    "launch": "inferencex-2026-02-12",
    "prefill_tp_size": 8,
    "prefill_moe_ep_size": 8,
    "decode_tp_size": 8,
    "decode_moe_ep_size": 8,
    "device": "b200-sxm",
}


def test_workers_that_nobody_counted_are_those_of_the_published_launch():
    _, plan = plan_of(**UNCOUNTED, concurrency=1)
    assert (str(plan.prefill), str(plan.decode)) == ("1xep8dp8", "1xtp8")
    assert (plan.prefill.plan.backend, plan.decode.plan.backend) == (
        "nccl",
        "vllm",
    )  # as of counted workers
    _, later = plan_of(**UNCOUNTED | {"launch": "inferencex-2026-03-24"}, concurrency=1)
    assert (str(later.prefill), str(later.decode)) == (
        "1xtp8",
        "1xtp8",
    )  # a launch of that month's other script


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"concurrency": 3}, "prefill_num_workers"),
        ({}, "prefill_num_workers"),
        ({"concurrency": 128}, " or "),
        ({"concurrency": 1, "engine": "sglang"}, "prefill_num_workers"),
        ({"concurrency": 1, "decode_tp_size": 4, "decode_moe_ep_size": 4}, "prefill_num_workers"),
        ({"concurrency": 1, "launch": "inferencex-2025-01-01"}, "prefill_num"),
        ({"concurrency": 1, "launch": "aiconfigurator"}, "prefill_num_workers"),
        ({"concurrency": 1, "launch": None}, "prefill_num_workers"),
    ],
)
def test_a_row_that_no_launch_or_several_fit_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        plan_of(**UNCOUNTED | changes)


@pytest.mark.parametrize("lacking", ["prefill_num_workers", "decode_num_workers", "decode_tp_size"])
def test_a_kind_of_worker_that_is_left_open_is_refused_by_its_column(lacking):
    without = dict(TWO_KINDS) | {lacking: None}
    if lacking == "decode_tp_size":
        without["decode_moe_ep_size"] = None
    with pytest.raises(InputError, match=lacking):
        plan_of(**without)


@pytest.mark.parametrize(
    ("columns", "plan"),
    [
        ({"tp_size": 2, "moe_tp_size": 1, "moe_ep_size": 16}, "1xtp2ep16dp8"),
        ({"tp_size": 1, "moe_tp_size": 4, "moe_ep_size": 4}, "1xep16dp16"),
        ({"tp_size": 8, "moe_tp_size": 1, "moe_ep_size": 4}, "1xtp8"),
    ],
)
def test_a_width_that_is_left_out_is_what_remains_of_the_devices(columns, plan):
    assert str(plan_of(**columns)[1].decode) == plan


def test_attention_was_not_copied_where_copies_do_not_fit():
    """DeepSeek in fp8 on four GB200: 182 GB a device with copies of attention, 168 without."""
    copied = {"tp_size": 1, "attention_dp_size": 4, "moe_tp_size": 1, "moe_ep_size": 4}
    assert str(plan_of(device="gb200", **copied)[1].decode) == "1xtp4"
    assert str(plan_of(device="gb300", **copied)[1].decode) == "1xep4dp4"
    # neither fits: the plan stays, and the answer says so
    assert str(plan_of(device="h200-sxm", **copied)[1].decode) == "1xep4dp4"


def test_widths_of_attention_and_experts_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="moe_ep_size"):
        plan_of(tp_size=8, moe_tp_size=2, moe_ep_size=2)


def test_users_follow_from_the_batches_where_nobody_counted_them():
    row, plan = plan_of(**TWO_KINDS, decode_batch_size=3)
    assert users_of_row(row, plan) == 15
    row, plan = plan_of(
        **TWO_KINDS | {"decode_tp_size": 1, "decode_attention_dp_size": 8}, decode_batch_size=3
    )
    assert users_of_row(row, plan) == 120
    assert users_of_row({**row, "concurrency": 7}, plan) == 7
    assert users_of_row({**row, "decode_batch_size": None}, plan) is None


def test_a_concurrency_of_several_servers_is_the_batch_of_one():
    row, plan = plan_of(tp_size=2, batch_size=13, concurrency=416)
    assert users_of_row(row, plan) == 13
    row, plan = plan_of(tp_size=4, batch_size=96, concurrency=384)  # attention may have copies
    assert users_of_row(row, plan) == 384
    row, plan = plan_of(
        tp_size=1, attention_dp_size=64, moe_ep_size=8, moe_tp_size=8, batch_size=1, concurrency=64
    )
    assert users_of_row(row, plan) == 64


def test_every_published_launch_can_be_found_by_what_tables_state_of_it():
    for launch in published_launches():
        plan = launch.plan
        run = Launched(
            model=launch.model,
            device=launch.device,
            engine=launch.engine,
            weights=launch.weights,
            prompt_tokens=launch.prompt_tokens,
            output_tokens=launch.output_tokens,
            users=min(launch.users),
            launch=LaunchName(scripts="inferencex", day=launch.since),
            prefill_devices=plan.prefill.plan.devices,
            decode_devices=plan.decode.plan.devices,
        )
        assert run.is_of(launch)
        try:
            assert launched_plan(run) is not None
        except InputError as several:
            assert str(plan.decode) in str(several)
        assert load_device(launch.device).name == launch.device
        assert load_engine(launch.engine).name == launch.engine
        assert all(side.plan.devices <= 72 for side in (plan.prefill, plan.decode))
