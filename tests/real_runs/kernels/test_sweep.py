"""A sweep keeps what it has: by its deadline, past failures, within memory, coarse grid first."""

import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from costmodel.architectures.library import load_model  # noqa: E402
from hardware_profiles.errors import InputError  # noqa: E402
from real_runs.kernels import machine as machines  # noqa: E402
from real_runs.kernels import moe, timing  # noqa: E402
from real_runs.kernels.copy import copy_cases  # noqa: E402
from real_runs.kernels.gemm import gemm_cases, weight_shapes  # noqa: E402
from real_runs.kernels.launch import launch_cases  # noqa: E402
from real_runs.kernels.sweep import Case, Variant, coarse_first, sweep  # noqa: E402
from real_runs.kernels.timing import Effort  # noqa: E402

CPU = torch.device("cpu")
QUICK = Effort(repeats=3, budget_s=0.002)
MACHINE = machines.Machine(
    device=CPU,
    title="CPU",
    profile="",
    cache_bytes=1 << 14,
    memory_bytes=1 << 24,
    threads=1,
    copy_bytes_per_s=1e9,
    gemm_flops_per_s=1e10,
)


@pytest.fixture(autouse=True)
def _no_repeat_is_disturbed(monkeypatch):
    """Which rows there are does not hang on what else runs on this machine."""
    monkeypatch.setattr(timing, "LEAST_PROCESS_SHARE", 0.0)


def work():
    return sum(range(3000))


def case(rows, build=None, **changes):
    builders = build or (lambda sets: {"sum": lambda: Variant(calls=[work] * sets)})
    shape = {"operation": "launch", "dtype": "fp32", "rows": rows}
    return replace(
        Case(shape=shape, flops=1.0, bytes=8.0, set_bytes=8.0, build=builders, most_sets=2),
        **changes,
    )


def run(cases, **options):
    return sweep(
        cases, MACHINE, QUICK, **{"deadline": time.monotonic() + 300, "names": False} | options
    )


@given(st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_every_combination_comes_once_and_corners_come_first(lengths):
    axes = [list(range(length)) for length in lengths]
    order = coarse_first(axes)
    assert len(order) == len(set(order)) == torch.Size(lengths).numel()
    ends = [{0, length - 1} for length in lengths]
    corners = torch.Size([len(each) for each in ends]).numel()
    assert all(i in end for pick in order[:corners] for i, end in zip(pick, ends, strict=True))


def test_a_failing_implementation_is_a_record_and_the_rest_goes_on():
    def fails():
        raise RuntimeError("misaligned address\nmore")

    def build(sets):
        return {"bad": fails, "good": lambda: Variant(calls=[work], fields={"splits": 3})}

    found = run([case(1, build), case(2, refused={"other": "takes no tree mask"})])
    assert [(row.implementation, row.splits) for row in found.rows] == [("good", 3), ("sum", 0)]
    assert [each["reason"] for each in found.skipped] == [
        "RuntimeError: misaligned address",
        "takes no tree mask",
    ]


def test_operands_scratch_and_time_are_limited():
    found = run([case(1, set_bytes=1e12), case(2, scratch={"sum": 1e12}), case(3, flops=1e14)])
    assert found.rows == []
    for each, word in zip(found.skipped, ("exceed", "scratch", "at best"), strict=True):
        assert word in each["reason"]


def test_calls_too_slow_by_a_pace_seen_before_are_not_made():
    slow = case(1, bytes=8.0), case(2, bytes=8e8)
    found = sweep(
        slow,
        MACHINE,
        replace(QUICK, longest_call_s=0.9),
        deadline=time.monotonic() + 300,
        names=False,
    )
    assert [row.rows for row in found.rows] == [1]
    assert "would take about" in found.skipped[0]["reason"]


def test_the_deadline_and_a_stop_leave_what_is_done():
    assert run([case(1)], deadline=time.monotonic() - 1).skipped == [
        {"operation": "launch", "cases": 1, "reason": "no time left"}
    ]
    seen = []
    found = run(
        [case(i) for i in range(1, 9)], should_stop=lambda: len(seen) >= 3, checkpoint=seen.append
    )
    assert [row.rows for row in found.rows] == [1, 2, 3]
    assert found.skipped[-1] == {"operation": "launch", "cases": 5, "reason": "stopped"}


def test_rounds_go_through_all_shapes_before_one_comes_again_and_leave_one_row_each():
    calls = []

    def build(rows):
        return lambda sets: {"sum": lambda: Variant(calls=[lambda: (calls.append(rows), work())])}

    found = sweep(
        [case(rows, build(rows), most_sets=1) for rows in (1, 2)],
        MACHINE,
        Effort(repeats=6, budget_s=1.0),
        deadline=time.monotonic() + 300,
        rounds=3,
        names=False,
    )
    turns = [rows for at, rows in enumerate(calls) if at == 0 or calls[at - 1] != rows]
    assert turns == [1, 2, 1, 2, 1, 2]
    assert [row.rows for row in found.rows] == [1, 2] and found.skipped == []
    assert all(
        row.repeats <= row.discarded + 1 and row.low_s <= row.median_s <= row.high_s
        for row in found.rows
    )


def test_a_later_round_that_has_no_time_leaves_the_rows_of_the_first():
    seen = []
    found = run(
        [case(i) for i in (1, 2)],
        rounds=3,
        should_stop=lambda: len(seen) >= 3,
        checkpoint=seen.append,
    )
    assert [row.rows for row in found.rows] == [1, 2]
    assert found.skipped == [{"operation": "launch", "cases": 1, "reason": "stopped in round 2"}]


def test_what_fails_in_every_round_is_said_once():
    found = run([case(1, refused={"other": "takes no tree mask"})], rounds=3)
    assert [each["reason"] for each in found.skipped] == ["takes no tree mask"]


def test_names_are_looked_up_for_every_row():
    found = run(copy_cases(CPU, sizes_bytes=[4096]), names=True)
    assert {row.operation: row.kernels.split(" ")[0] for row in found.rows} == {
        "copy": "aten::copy_",
        "read": "aten::sum",
        "write": "aten::fill_",
    }


def test_cold_rows_rotate_through_more_than_the_cache():
    big, small = (
        run(copy_cases(CPU, sizes_bytes=[1 << 20]), names=False).rows[0],
        run(launch_cases(CPU, kernels=[4])),
    )
    assert big.cold and big.sets * 2 * (1 << 20) >= 2 * MACHINE.cache_bytes
    assert not small.rows[0].cold


def test_products_have_the_models_shapes_and_counts():
    assert weight_shapes("llama-3.1-8b") == [
        (6144, 4096),
        (4096, 4096),
        (28672, 4096),
        (4096, 14336),
        (128256, 4096),
    ]
    model = load_model("llama-3.1-8b")
    halves = weight_shapes("llama-3.1-8b", tensor_parallel=2, head=False)
    whole = weight_shapes("llama-3.1-8b", head=False)
    assert 2 * sum(n * k for n, k in halves) == sum(n * k for n, k in whole)
    assert 32 * sum(n * k for n, k in whole) == pytest.approx(
        model.parameters - 2 * model.head_parameters, rel=1e-4
    )
    found = gemm_cases([(64, 32)], CPU, "fp32", rows=[8])[0]
    assert (found.flops, found.bytes) == (2 * 8 * 64 * 32, 4 * (64 * 32 + 8 * 32 + 8 * 64))
    rows = run([found]).rows
    assert (rows[0].rows, rows[0].outputs, rows[0].inputs) == (8, 64, 32)


@given(rows=st.integers(1, 300), routing=st.sampled_from(["balanced", "random"]))
def test_every_token_visits_its_experts(rows, routing):
    _, layer = moe.expert_layer("qwen3-30b-a3b")
    counts = moe.tokens_per_expert(rows, layer, routing)
    assert len(counts) == layer.experts and sum(counts) == rows * layer.experts_per_token
    assert max(counts) <= rows
    if routing == "balanced":
        assert max(counts) - min(counts) <= 1


def test_the_loop_over_experts_is_the_layer_token_by_token():
    generator = torch.Generator().manual_seed(0)
    tokens, first, second = (
        torch.randn(shape, generator=generator) for shape in ((5, 8), (3, 12, 8), (3, 8, 6))
    )
    owner = [0, 0, 2, 2, 2]
    expected = []
    for token, expert in zip(tokens, owner, strict=True):
        gate, up = (first[expert] @ token).chunk(2)
        expected.append(second[expert] @ (gate * torch.sigmoid(gate) * up))
    torch.testing.assert_close(
        moe.loop_call([2, 0, 3], tokens, first, second)(), torch.stack(expected)
    )


def test_experts_only_where_there_are_some():
    with pytest.raises(InputError, match="experts"):
        moe.expert_layer("llama-3.1-8b")


def test_the_machine_is_described_and_never_guessed():
    here = machines.machine("cpu", "fp32", memory_limit_bytes=1 << 20)
    assert here.memory_bytes == 1 << 20 and here.threads == 1 and here.cache_bytes >= 1 << 16
    assert here.copy_bytes_per_s > 0 and here.gemm_flops_per_s > 0
    for device, dtype in (("cpu", "fp12"), ("cuda:99", "fp32"), ("nonsense", "fp32")):
        with pytest.raises(InputError):
            machines.machine(device, dtype)
