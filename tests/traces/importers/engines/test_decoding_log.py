"""vllm-log: every version's lines, drafts inferred from printed figures, batch sizes beside
them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.importers.engines.decoding_log import read


def window(drafts, kept, stamp="06-01 22:00:52"):
    """A V1 line as the engine prints it: `kept[d]` of the drafts accept position d."""
    accepted = sum(kept)
    rates = ", ".join(f"{count / drafts:.3f}" for count in kept)
    return (
        f"(APIServer pid=1) INFO {stamp} [metrics.py:101] SpecDecoding metrics: Mean acceptance"
        f" length: {1 + accepted / drafts:.2f}, Accepted throughput: 0.68 tokens/s, Drafted"
        f" throughput: 0.80 tokens/s, Accepted: {accepted} tokens, Drafted: {drafts * len(kept)}"
        f" tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate:"
        f" {100 * accepted / (drafts * len(kept)):.1f}%"
    )


def engine(running, stamp="06-01 22:00:52", number=0):
    return (
        f"(APIServer pid=1) INFO {stamp} [loggers.py:271] Engine {number:03d}: Avg prompt"
        f" throughput: 908.0 tokens/s, Avg generation throughput: 26.9 tokens/s, Running: {running}"
        " reqs, Waiting: 0 reqs, GPU KV cache usage: 0.4%"
    )


def totals(length, accepted, drafted, emitted):
    return (
        "Speculative metrics: Draft acceptance rate: 0.607, System efficiency: 0.510, "
        f"Number of speculative tokens: {length}, Number of accepted tokens: {accepted}, "
        f"Number of draft tokens: {drafted}, Number of emitted tokens: {emitted}."
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("log")


@given(
    st.lists(st.lists(st.integers(0, 400), min_size=3, max_size=3), min_size=1, max_size=6),
    st.data(),
)
def test_drafts_are_recovered_from_printed_figures(folder, kept, data):
    kept = [sorted(each, reverse=True) for each in kept]
    drafts = [each[0] + data.draw(st.integers(1, 300)) for each in kept]
    file = folder / "server.log"
    file.write_text("\n".join(map(window, drafts, kept)))
    summary = read(file).summary
    assert [each.drafts for each in summary.windows] == drafts
    assert summary.accepted_tokens == sum(map(sum, kept)) and summary.draft_tokens == 3 * sum(
        drafts
    )
    true = [sum(each[depth] for each in kept) / sum(drafts) for depth in range(3)]
    assert summary.acceptance_by_depth == pytest.approx(true, abs=6e-4)


def write(tmp_path, *lines):
    file = tmp_path / "server.log"
    file.write_text("\n".join(lines))
    return file


def batches(path):
    return [each.batch_requests for each in read(path).summary.windows]


def test_batch_sizes_come_from_the_neighbouring_engine_line(tmp_path):
    one, two = window(10, [6, 3]), window(20, [9, 1])
    assert batches(write(tmp_path, engine(3), one, "noise", engine(5), "noise", two)) == [3, 5]
    assert batches(write(tmp_path, one, engine(3), two, engine(5))) == [3, 5]
    assert batches(write(tmp_path, engine(3), one, two)) == [3, None]
    assert batches(write(tmp_path, one)) == [None]
    assert "1 of 1 windows have no engine line" in read(write(tmp_path, one)).provenance.notes


def test_batch_sizes_of_several_engines_and_by_time_stamp(tmp_path):
    lines = [engine(3), window(10, [6, 3]), engine(5, number=1), window(20, [9, 1])]
    assert batches(write(tmp_path, *lines)) == [3, 5]
    later = "06-02 09:00:00"
    apart = [
        window(10, [6]),
        window(20, [9], later),
        window(30, [9], "07-01 00:00:00"),
        engine(7, later),
    ]
    assert batches(write(tmp_path, *apart)) == [None, 7, None]


def test_without_lengths_drafts_are_unknown(tmp_path):
    line = (
        "SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 33 tokens, Drafted: 66"
        " tokens"
    )
    summary = read(write(tmp_path, line)).summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == (0, 66, 33)
    assert summary.tokens_per_step is None and summary.acceptance_by_depth == ()
    mixed = read(write(tmp_path, line, window(10, [6, 3])))
    assert (mixed.summary.drafts, mixed.summary.accepted_tokens) == (10, 9)
    assert "1 of 2 windows do not tell" in mixed.provenance.notes


def test_short_drafts_take_the_mean_length(tmp_path):
    """100 drafts with a single token and 50 with three: drafted / 3 would be wrong."""
    line = window(150, [90, 30, 15]).replace("Drafted: 450", "Drafted: 250")
    assert read(write(tmp_path, line)).summary.drafts == 150
    rare = (
        "Mean acceptance length: 1.00, Accepted: 0 tokens, Drafted: 30 tokens, Per-position"
        " acceptance rate: 0.000"
    )
    assert read(write(tmp_path, f"SpecDecoding metrics: {rare}")).summary.drafts == 30


def test_running_totals_are_differenced_and_restarts_seen(tmp_path):
    first, second = totals(4, 99, 400, 250), totals(4, 199, 800, 480)
    summary = read(write(tmp_path, first, first, second, totals(4, 9, 40, 15))).summary
    assert [each.drafts for each in summary.windows] == [100, 100, 10]
    assert [each.accepted_tokens for each in summary.windows] == [150, 130, 5]
    assert summary.tokens_per_step == 1 + 285 / 210


def test_windows_of_different_length_are_noted(tmp_path):
    trace = read(write(tmp_path, window(10, [8, 4]), window(30, [24, 12, 6])))
    assert "differ in draft length" in trace.provenance.notes
    assert trace.summary.acceptance_by_depth == pytest.approx((0.8, 0.4, 0.15))


def test_idle_windows_are_passed_over(tmp_path):
    idle = (
        "SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens"
    )
    assert len(read(write(tmp_path, idle, window(10, [8]))).summary.windows) == 1
    with pytest.raises(InputError, match=r"server\.log"):
        read(write(tmp_path, idle))


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("", "holds no"),
        ("all is well", "holds no"),
        (engine(3), "holds no"),
        ("SpecDecoding metrics: Accepted: many tokens, Drafted: few tokens", "holds no"),
        ("SpecDecoding metrics: Accepted: 7 tokens, Drafted: 6 tokens", "line 1"),
        (window(10, [8, 4]).replace("0.800, 0.400", "0.400, 0.800"), "line 1"),
        (window(10, [8, 4]).replace("0.800", "1.800"), "line 1"),
        (totals(4, 9, 40, 15).replace(": 40,", f": {'9' * 40},"), "holds no"),
    ],
)
def test_refusals_name_the_file(tmp_path, line, rule):
    with pytest.raises(InputError, match=rule) as caught:
        read(write(tmp_path, line))
    assert "server.log" in str(caught.value)


PIECES = st.sampled_from(
    [
        "SpecDecoding metrics: ",
        "Speculative metrics: ",
        "Accepted: ",
        "Drafted: ",
        " tokens",
        "Mean acceptance length: ",
        "Per-position acceptance rate: ",
        "0.5, ",
        "1.9",
        "7",
        "9" * 20,
        "\n",
        "Running: 3 reqs",
        "06-01 22:00:52",
        "é",
        "Avg generation throughput: ",
        "Number of speculative tokens: ",
        ", Number of accepted tokens: ",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join) | st.binary(max_size=60))
def test_hostile_logs_raise_input_errors_only(folder, content):
    file = folder / "hostile.log"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        assert read(file).level == 0
    except InputError as error:
        assert "hostile.log" in str(error)


def test_real_lines_of_every_version(published):
    trace = read(published / "engine_logs" / "log_lines.txt")
    windows = trace.summary.windows
    assert [each.drafts for each in windows] == [99, 25, 203, 235, 13429, 0]
    printed = [2.71, 2.08, 2.01, 2.97]
    assert [each.tokens_per_step for each in windows[:4]] == pytest.approx(printed, abs=0.0051)
    # V0 prints a system efficiency of 0.510: emitted over drafts times (length + 1).
    assert windows[4].tokens_per_step / 5 == pytest.approx(0.510, abs=0.0005)
    assert [each.batch_requests for each in windows] == [1, None, None, None, None, None]
