"""Times are of one call, cold where rows say so, and repeats that lost the processor do not
count."""

import contextlib
import time

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from real_runs.kernels import timing  # noqa: E402
from real_runs.kernels.kernel_names import kernel_names, short_name  # noqa: E402
from real_runs.kernels.timing import Effort, Measurement, is_cold, measure, sets_needed  # noqa: E402

CPU = torch.device("cpu")


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_median_is_of_one_call_not_of_a_repeat(monkeypatch):
    ticks = iter(range(10_000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock["t"])
    monkeypatch.setattr(timing.time, "process_time", lambda: clock["t"])
    clock = {"t": 0.0}

    def call():
        next(ticks)
        clock["t"] += 3e-5

    found = measure({"a": [call, call]}, CPU, Effort(repeats=5, budget_s=1.0))["a"]
    assert found.median_s == pytest.approx(3e-5)
    assert (found.repeats, found.discarded, found.outliers, found.graph) == (5, 0, 0, False)


def test_disturbed_repeats_are_left_out_and_outliers_are_counted(monkeypatch):
    clock = {"wall": 0.0, "cpu": 0.0}
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(timing.time, "process_time", lambda: clock["cpu"])
    # wall and process time of each call: the third waited for the processor, the fifth was slow by
    # itself
    script = iter(
        [(1e-3, 1e-3)] * 3 + [(1e-3, 1e-3), (1e-3, 1e-3), (9e-3, 1e-3), (1e-3, 1e-3), (4e-3, 4e-3)]
    )

    def call():
        wall, cpu = next(script, (1e-3, 1e-3))
        clock["wall"] += wall
        clock["cpu"] += cpu

    found = measure({"a": [call]}, CPU, Effort(repeats=5, budget_s=1.0))["a"]
    assert (found.median_s, found.repeats, found.discarded, found.outliers) == (
        pytest.approx(1e-3),
        5,
        1,
        1,
    )


@given(st.lists(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6), min_size=2, max_size=5))
def test_of_several_rounds_the_faster_half_counts_however_they_are_pooled(rounds):
    parts = [
        Measurement(
            median_s=timing.median(times),
            low_s=min(times),
            high_s=max(times),
            repeats=len(times),
            discarded=1,
            outliers=0,
            graph=False,
            cpu_ratio=1.0,
            times=tuple(times),
        )
        for times in rounds
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = timing.pooled(whole, part)
    every = sorted(seconds for times in rounds for seconds in times)
    kept = every[: -(-len(every) // 2)]
    assert whole.median_s == pytest.approx(timing.median(kept)) and whole.repeats == len(kept)
    assert whole.discarded == len(parts) + len(every) - len(kept)
    assert sorted(whole.times) == every and whole.cpu_ratio == pytest.approx(1.0)


def test_an_effort_is_shared_among_rounds():
    assert Effort(repeats=7, budget_s=0.4).shared(4) == Effort(repeats=2, budget_s=0.1, least=2)
    assert Effort(repeats=3, budget_s=0.4).shared(4).least == 1


def test_a_processor_that_is_never_free_gives_no_time():
    found = measure({"a": [lambda: time.sleep(1e-3)]}, CPU, Effort(repeats=3, budget_s=0.01))["a"]
    assert isinstance(found, timing.BusyProcessorError)


def test_what_one_implementation_raises_leaves_the_others_alone():
    def fails():
        raise RuntimeError("no kernel")

    found = measure(
        {"bad": [fails], "good": [lambda: spin(2e-4)]}, CPU, Effort(repeats=3, budget_s=0.05)
    )
    assert "no kernel" in str(found["bad"])
    assert isinstance(found["good"], timing.BusyProcessorError) or found["good"].median_s >= 2e-4


@given(
    size=st.floats(1, 1e10),
    cache=st.integers(1 << 20, 1 << 27),
    memory=st.floats(1e9, 1e11),
    most=st.integers(1, 256),
)
def test_sets_are_cold_or_limited_by_memory_or_number(size, cache, memory, most):
    sets = sets_needed(size, cache, memory, most=most)
    assert 1 <= sets <= most
    assert sets == 1 or sets * size <= memory
    assert is_cold(size, sets, cache) or sets == most or (sets + 1) * size > memory
    assert sets == 1 or not is_cold(size, sets - 1, cache)


def test_all_sets_are_used_in_turn():
    used = []
    calls = [lambda i=i: used.append(i) for i in range(4)]
    measure({"a": calls, "b": calls}, CPU, Effort(repeats=3, budget_s=0.01))
    assert set(used) == {0, 1, 2, 3}


def test_kernels_are_named():
    a = torch.rand(64, 64)
    assert "aten::mm" in kernel_names(lambda: a @ a, CPU)


@pytest.mark.parametrize(
    ("given_name", "short"),
    [
        (
            "void flash::flash_fwd_splitkv_kernel<Traits<128, 64>, true>(Params)",
            "flash::flash_fwd_splitkv_kernel",
        ),
        ("void at::native::(anonymous namespace)::softmax<float>(int)", "at::native::softmax"),
        ("nvjet_tst_128x64_v_bz_TNT", "nvjet_tst_128x64_v_bz_TNT"),
        ("Memset (Device)", "Memset"),
        ("<lambda>", "<lambda>"),
    ],
)
def test_names_are_shortened_to_what_distinguishes_kernels(given_name, short):
    assert short_name(given_name) == short


class FakeCuda:
    """The parts of torch.cuda that timing uses; every call takes 10 µs of device time, a flush
    takes 50."""

    def __init__(self, capturable=True):
        self.now, self.log, self.capturable, self.capturing = 0.0, [], capturable, None

    def call(self):
        if self.capturing is not None:
            if not self.capturable:
                raise RuntimeError("operation not permitted when stream is capturing")
            self.capturing.append(self.call)
        else:
            self.now += 0.01
            self.log.append("call")

    def flush(self):
        self.now += 0.05
        self.log.append("flush")

    def current_device(self):
        return 0

    def synchronize(self):
        pass

    def wait_stream(self, other):
        pass

    def current_stream(self):
        return self

    Stream = current_stream

    def stream(self, stream):
        return contextlib.nullcontext()

    def Event(self, enable_timing):  # noqa: N802
        cuda = self

        class Event:
            def record(self):
                self.at = cuda.now

            def elapsed_time(self, end):
                return end.at - self.at

        return Event()

    def CUDAGraph(self):  # noqa: N802
        cuda = self

        class Graph(list):
            def replay(self):
                cuda.log.append("replay")
                for each in self:
                    each()

            def reset(self):
                cuda.log.append("reset")

        return Graph()

    @contextlib.contextmanager
    def graph(self, graph, stream):
        self.capturing = graph
        try:
            yield
        finally:
            self.capturing = None


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(timing.torch, "cuda", fake)
    monkeypatch.setattr(timing, "_timing_stream", lambda index: fake)
    return fake


def test_captured_rotations_follow_a_flush_and_launches_follow_none(cuda):
    """A flush would hide what launches cost, and it alone makes a rotation through few operands
    cold."""
    for graph in (True, False):
        cuda.log.clear()
        found = timing.measure_cuda(
            [cuda.call] * 5, Effort(repeats=7, budget_s=1.0, graph=graph), cuda.flush
        )
        assert found.median_s == pytest.approx(1e-5) and found.repeats == 7
        assert found.graph == graph == ("reset" in cuda.log)
        assert cuda.log.count("flush") == (9 if graph else 0)
        if graph:
            assert cuda.log[-8:] == ["flush", "replay", *["call"] * 5, "reset"]


def test_a_short_call_stands_several_times_in_its_graph(cuda):
    """The start of a graph is a few microseconds, which a graph of one call would add to its
    time."""
    found = timing.measure_cuda([cuda.call], Effort(repeats=3, budget_s=1.0), cuda.flush)
    assert found.median_s == pytest.approx(1e-5)
    assert cuda.log[-6:] == ["replay", *["call"] * timing.LEAST_CALLS_PER_GRAPH, "reset"]


def test_calls_that_cannot_be_captured_have_no_time(cuda):
    """Times of launches, ten times as long, stood in their place."""
    cuda.capturable = False
    found = measure({"host": [cuda.call]}, torch.device("cuda"), Effort())["host"]
    assert isinstance(found, timing.CaptureError)
    assert "cannot be captured: operation not permitted" in str(found)


def test_a_flush_writes_one_buffer_and_reads_another():
    """What is written last waits in the cache and would be written to memory while the timed call
    runs."""
    flush = timing.Flush(1 << 10, CPU)
    flush._written.fill_(3.0)
    flush._read.fill_(0.5)
    flush()
    assert not flush._written.any() and float(flush._sum) == pytest.approx(0.5 * len(flush._read))
    assert min(flush._written.nbytes, flush._read.nbytes) >= 2 << 10
    assert flush._written.data_ptr() != flush._read.data_ptr()


def test_a_gpu_error_is_returned_and_long_calls_run_once(cuda):
    found = timing.measure_cuda([cuda.call], Effort(repeats=7, longest_call_s=1e-6), cuda.flush)
    assert (found.repeats, found.low_s, found.high_s) == (1, found.median_s, found.median_s)

    def fails():
        raise RuntimeError("misaligned address")

    result = measure({"bad": [fails]}, torch.device("cuda"), Effort())["bad"]
    assert "misaligned" in str(result)


def test_calls_that_a_device_queues_are_timed_between_two_waits(monkeypatch):
    """Without a wait the time would be that of handing them over."""
    now, queued = [0.0], []

    def wait():
        now[0] += sum(queued) + 1e-4
        queued.clear()

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    effort = Effort(repeats=5, budget_s=1.0)
    found = timing.measure_queued([lambda: queued.append(1e-5)] * 3, effort, wait)
    assert found.median_s == pytest.approx(1e-5, rel=0.1)
    assert found.repeats == 5 and not found.graph
