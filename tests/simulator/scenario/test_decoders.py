"""Written scenarios of block decoders, overlap, ragged batches, feed-forward layers apart and
priorities."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costmodel.laws.acceptance import several_chains
from costmodel.laws.batching import SERIAL
from costmodel.method import Stop
from costmodel.method_library import load_method
from costmodel.passes.memory import layer_weight_bytes
from hardware_profiles.errors import InfeasibleError, InputError
from simulator.engine import simulate
from simulator.scenario.arrivals import recorded, repeated, with_priorities
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario
from simulator.timing.cost_timer import CostModelTimer
from simulator.timing.split_timer import SplitTimer
from traces.importers.formats import read_requests_any
from traces.kinds.acceptance import RequestTrace
from traces.replay.dynamic import TreePolicy
from traces.storage.acceptance_file import read_requests, write_requests

DRAWN = {
    "count": 12,
    "prompt_tokens": "uniform:50:200",
    "output_tokens": 24,
    "arrivals": "poisson",
    "rate_per_s": 5,
}
SECTIONS = {"requests": DRAWN, "deployment": {"model": "llama-3.1-8b", "device": "h100-sxm"}}
LENGTHS = "smollm2-135m--prompt-lookup--greedy"


def prepared(**parts):
    return prepare(checked_scenario(SECTIONS | parts))


def run(**parts):
    return simulate(prepared(**parts).scenario(1))


@pytest.mark.parametrize(
    ("section", "commits", "queries"),
    [
        ({"block_tokens": 6, "passes": 4}, [[2, 2, 1, 1]], [6, 6, 6, 6]),
        ({"block_tokens": 3, "commits": [[3], [1, 0, 2]]}, [[3, 0, 0], [1, 0, 2]], [3, 3, 3]),
        ({"block_tokens": 4, "passes": 4, "query_tokens": [9, 2]}, [[1, 1, 1, 1]], [9, 2, 2, 2]),
    ],
)
def test_blocks_become_a_table_of_passes(section, commits, queries):
    options = prepared(blocks=section).scenario().blocks
    assert options.commits.tolist() == commits and options.query_tokens.tolist() == queries


def test_a_block_decoder_runs_from_a_file_and_takes_its_passes():
    result = run(blocks={"block_tokens": 8, "passes": 2, "closing_passes": 1})
    assert result.finished.all()
    assert result.counters["steps"] == 12 * (
        3 * 3 - 1
    )  # three blocks each, of which the last need not be stored
    assert result.tokens_per_step == pytest.approx(24 / 8)
    one, same, other = (
        prepared(blocks={"block_tokens": 8, "commit_ratio": 0.4}).scenario(seed).blocks.commits
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same) and (
        one.shape != other.shape or not np.array_equal(one, other)
    )


def test_an_overlap_by_name_can_be_changed_key_by_key():
    speculation = {
        "trace": LENGTHS,
        "draft_tokens": 3,
        "overlap": "faser",
        "parts": 3,
        "interference_ratio": 0.25,
    }
    faser = load_method("faser")
    assert prepared(speculation=speculation).speculation.batch == replace(
        faser.batch, parts=3, interference_ratio=0.25
    )
    by_entry = {"trace": LENGTHS, "draft_tokens": 3, "method": "faser", "draft": "llama-3.2-1b"}
    by_method = prepared(speculation=by_entry).speculation
    assert (by_method.batch, by_method.stop) == (faser.batch, faser.stop)
    plain = prepared(speculation={"trace": LENGTHS, "draft_tokens": 3}).speculation
    assert plain.batch == SERIAL and plain.stop.rule == "length"


def test_ragged_batches_from_a_file():
    def clock(**keys):
        return run(
            requests=DRAWN | {"rate_per_s": 1000, "output_tokens": 60},
            speculation={"trace": LENGTHS, "draft_tokens": 5} | keys,
        ).clock_s

    split, padded = clock(), clock(ragged="pad")
    grouped = clock(ragged="pad", group_requests=4)
    assert split <= padded < grouped  # more passes read the weights more often
    assert clock(ragged="regroup", group_requests=4) <= grouped * 1.001


def test_a_prefix_that_all_share_is_held_and_computed_once():
    alike = DRAWN | {"prompt_tokens": 1100, "output_tokens": 8, "rate_per_s": 1000}
    with_prefix = SECTIONS["deployment"] | {"shared_prefix_tokens": 1030}
    own, shared = run(requests=alike), run(requests=alike, deployment=with_prefix)
    assert own.finished.all() and shared.finished.all()
    spared = 11 * 1024  # 64 whole blocks of the 1,030 tokens, for all but the first request
    assert (
        own.counters["prompt_tokens_computed"] - shared.counters["prompt_tokens_computed"] == spared
    )
    assert shared.kv_peak_ratio < 0.25 * own.kv_peak_ratio and shared.clock_s < own.clock_s
    with pytest.raises(InputError, match="prefix_cache"):
        prepared(deployment=with_prefix, scheduler={"prefix_cache": False})
    with pytest.raises(InputError, match="tensor_parallel alone"):
        prepared(deployment=with_prefix | {"pipeline_parallel": 2})


def test_weights_on_the_host_make_room_for_cache_and_slow_every_pass():
    held, streamed = (
        prepared(deployment=SECTIONS["deployment"] | {"host_weights_ratio": share})
        for share in (0.0, 0.5)
    )
    freed = 0.5 * layer_weight_bytes(held.setting.target, held.setting.deployment.precision, 1)
    block = 16 * held.setting.target.kv_values_per_token * 2
    assert streamed.scheduler.kv_blocks - held.scheduler.kv_blocks == pytest.approx(
        freed / block, rel=0.05
    )
    one, two = (simulate(each.scenario(1)).busy_s for each in (held, streamed))
    assert two > 1.5 * one


def test_disaggregated_feed_forward_layers_leave_room_for_cache_and_are_timed_separately():
    together, apart = (
        prepared(),
        prepared(feed_forward={"tensor_parallel": 2, "attention_groups": 2}),
    )
    assert isinstance(together.timer, CostModelTimer) and isinstance(apart.timer, SplitTimer)
    # two groups, and in each the weights of the feed-forward layers (11.3 of 16 GB) make room
    assert apart.scheduler.kv_blocks > 2.2 * together.scheduler.kv_blocks
    assert (apart.timer.copies, apart.timer.feed_forward.tensor_parallel) == (2, 2)
    assert apart.timer.link.bytes_per_s == together.setting.device.link_bytes_per_s
    assert any("prompts take" in note for note in apart.notes)
    split = prepared(
        feed_forward={"device": "h200-sxm", "link_bytes_per_s": 1e9}, disaggregation={}
    )
    assert (
        split.timer.link.bytes_per_s == 1e9 and split.timer.feed_forward.device.name == "h200-sxm"
    )
    assert isinstance(split.disaggregation.prefill_timer, CostModelTimer) and not split.notes
    assert simulate(split.scenario()).finished.all()


def test_a_slow_link_between_the_sides_is_waited_for():
    fast, slow = (
        run(feed_forward={"link_bytes_per_s": rate, "micro_batches": 1}) for rate in (1e12, 1e8)
    )
    assert np.nanmean(slow.tpot_s) > 1.5 * np.nanmean(fast.tpot_s)


def test_feed_forward_layers_that_fit_nowhere_are_infeasible():
    large = {"model": "llama-3.1-405b", "tensor_parallel": 8}
    with pytest.raises(InfeasibleError, match="feed-forward layers"):
        prepared(deployment=large, feed_forward={"tensor_parallel": 1})


@pytest.fixture
def ranked():
    rng = np.random.default_rng(0)
    r = 30
    return RequestTrace(
        arrival_s=np.zeros(r),
        prompt_tokens=rng.integers(50, 90, r),
        output_tokens=np.full(r, 30),
        priority=rng.permutation(np.arange(r) % 2 * 7 - 3),
    )


def test_priorities_are_kept_by_files_and_workloads(ranked, tmp_path):
    write_requests(ranked, tmp_path / "r.parquet")
    again = read_requests(tmp_path / "r.parquet")
    assert again.priority.tolist() == ranked.priority.tolist() and again.priority.dtype == np.int32
    assert recorded(again, requests=4).priority.tolist() == ranked.priority[:4].tolist()
    assert repeated(again, 33).priority.tolist() == [*ranked.priority, *ranked.priority[:3]]


@pytest.mark.parametrize("form", ["vllm-requests", "lengths", "mooncake"])
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_foreign_files_may_have_a_column_of_priorities(tmp_path, form, ending):
    columns = {
        "arrival_s": [0.0, 0.5],
        "input_tokens": [600, 7],
        "output_tokens": [3, 4],
        "priority": [1, -2],
    }
    if form == "mooncake":
        columns["prefix_block512_ids" if ending == "parquet" else "hash_ids"] = [[1, 2], [3]]
    file = tmp_path / f"r.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table(columns), file)
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        file.write_text("\n".join(map(json.dumps, rows)))
    assert read_requests_any(file, form).priority.tolist() == [1, -2]


@pytest.mark.parametrize("value", ["high", 0.5, 1e12])
def test_priorities_that_are_none_are_named(tmp_path, value):
    file = tmp_path / "r.jsonl"
    file.write_text(
        json.dumps({"arrival_s": 0.0, "input_tokens": 1, "output_tokens": 2, "priority": value})
    )
    with pytest.raises(InputError, match="priority") as error:
        read_requests_any(file, "vllm-requests")
    assert str(file) in str(error.value)


def test_recorded_priorities_are_heeded_unless_it_is_said_otherwise(ranked, tmp_path):
    write_requests(ranked, tmp_path / "r.parquet")
    sections = {"requests": {"file": str(tmp_path / "r.parquet")}, "scheduler": {"max_requests": 4}}
    heeding = prepared(**sections)
    assert heeding.scheduler.priorities
    result = simulate(heeding.scenario())
    first = ranked.priority == -3
    assert np.nanmax(result.scheduled_s[first]) <= np.nanmin(result.scheduled_s[~first])
    deaf = prepared(**sections | {"scheduler": {"max_requests": 4, "priorities": False}})
    result = simulate(deaf.scenario())
    assert np.all(np.diff(result.scheduled_s) >= 0)


def test_shares_draw_priorities_where_a_file_has_none(ranked):
    bare = recorded(replace(ranked, priority=None))
    shares = {0: 0.25, 5: 0.75}
    one, same = (with_priorities(bare, shares, np.random.default_rng(3)).priority for _ in range(2))
    assert one.tolist() == same.tolist() and set(one.tolist()) == {0, 5}
    many = with_priorities(
        recorded(repeated(replace(ranked, priority=None), 20_000)), shares, np.random.default_rng(0)
    )
    assert np.mean(many.priority == 0) == pytest.approx(0.25, abs=0.02)
    kept = with_priorities(recorded(ranked), shares, np.random.default_rng(3))
    assert kept.priority.tolist() == ranked.priority.tolist()
    scenario = prepared(requests=DRAWN | {"priorities": {0: 0.5, 1: 0.5}}).scenario()
    assert scenario.scheduler.priorities and set(scenario.workload.priority.tolist()) == {0, 1}
    with pytest.raises(InputError, match="sum to 1"):
        with_priorities(bare, {0: 0.5}, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("parts", "key", "message"),
    [
        ({"blocks": {"block_tokens": 8}}, "blocks", "exactly one of passes"),
        ({"blocks": {"block_tokens": 8, "passes": 9}}, "blocks", "must not exceed the block's 8"),
        ({"blocks": {"block_tokens": 8, "commits": [[4, 3]]}}, "blocks", "sum to 8"),
        ({"blocks": {"block_tokens": 8, "commits": [[9, -1]]}}, "blocks", "numbers >= 0"),
        (
            {"blocks": {"block_tokens": 0, "passes": 1}},
            "blocks.block_tokens",
            "greater than or equal to 1",
        ),
        (
            {"blocks": {"block_tokens": 8, "commit_ratio": 1.5}},
            "blocks.commit_ratio",
            "less than or equal to 1",
        ),
        (
            {
                "blocks": {"block_tokens": 8, "passes": 2},
                "speculation": {"trace": "x", "draft_tokens": 1},
            },
            None,
            "two",
        ),
        (
            {"feed_forward": {"micro_batches": 0}},
            "feed_forward.micro_batches",
            "greater than or equal to 1",
        ),
        (
            {"feed_forward": {"links": 1}},
            "feed_forward.links",
            "unknown key .links.; nearest: link_",
        ),
        ({"feed_forward": {}, "profile": {"prefix": "x", "engine": "y"}}, None, "not by a profile"),
        ({"requests": DRAWN | {"priorities": {0: 0.5}}}, "requests", "sum to 1"),
        (
            {"requests": DRAWN | {"priorities": {"a": 1.0}}},
            "requests.priorities.a.[key]",
            "valid integer",
        ),
        (
            {"speculation": {"trace": "x", "draft_tokens": 1, "branches": 2}},
            "speculation",
            "go with an overlap",
        ),
        (
            {"speculation": {"trace": "x", "draft_tokens": 1, "ragged": "x"}},
            "speculation.ragged",
            "regroup",
        ),
        (
            {"speculation": {"trace": "x", "draft_tokens": 1, "overlap": "x"}},
            "speculation.overlap",
            "specbranch",
        ),
    ],
)
def test_errors_name_file_and_key(parts, key, message):
    with pytest.raises(InputError, match=message) as error:
        checked_scenario(SECTIONS | parts, "s.yaml")
    assert error.value.key == key and "s.yaml" in str(error.value)


def test_a_plan_and_disaggregated_feed_forward_layers_do_not_go_together():
    spread = SECTIONS["deployment"] | {"pipeline_parallel": 2}
    with pytest.raises(InputError, match="tensor_parallel alone"):
        prepared(deployment=spread, feed_forward={})


def test_a_scenario_names_a_dynamic_tree_as_answers_print_it(root):
    trace = str(root / "traces/recorded/level-3/smollm2-135m--layer-skip--greedy.parquet")
    written = {
        "trace": trace,
        "method": "eagle-3",
        "shape": "dynamic:6:least=0.1",
    }
    options = prepared(speculation=written).speculation
    assert (
        options.topology == TreePolicy(nodes=6, least_probability=0.1) and options.draft_tokens == 6
    )
    assert run(speculation=written).counters["drafted"] > 0
    for shape, message in (("dynamic:x2", "draft tokens"), ("dynamic:2:levels=2", "levels=2")):
        with pytest.raises(InputError, match=message):
            prepared(speculation=written | {"shape": shape})
    with pytest.raises(InputError, match="leave out one of them"):
        prepared(speculation=written | {"draft_tokens": 2})


def test_a_scenario_names_every_shape_as_answers_print_it(root):
    trace = str(root / "traces/recorded/level-3/smollm2-135m--medusa-heads--greedy.parquet")

    def drafted(shape):
        return prepared(speculation={"trace": trace, "shape": shape}).speculation

    assert drafted("chain:3").topology == 3
    ended = drafted("chain:4+probability:0.4")
    assert (ended.topology, ended.stop) == (4, Stop(rule="probability", at=0.4))
    assert drafted("tree:8").topology.draft_tokens == 8
    assert drafted("tree:8:vector").topology.draft_tokens == 8
    assert drafted("chains:2x3").topology == several_chains(2, 3)
    assert prepared(speculation={"trace": trace, "shape": "off"}).speculation is None
    with pytest.raises(InputError, match="no prompt tokens"):
        drafted("prompted:8")
