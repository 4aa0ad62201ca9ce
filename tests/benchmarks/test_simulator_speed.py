"""CPU time of the simulator, with ratios to a bare simpy loop in the same run.

The bare loop has one event per iteration and does nothing in it.
"""

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest
import simpy

from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.drafter import build_drafter
from costmodel.engine_library import load_engine
from costmodel.method_library import load_method
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from simulator.engine import simulate
from simulator.loop.block_options import RecordedBlocks
from simulator.loop.options import Disaggregation, Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from tests.simulator.plain_service import Service
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.block_passes import block_passes
from traces.storage.confidence_file import read_confidence

BATCH, STEPS = 256, 4_000
TARGET_ITERATIONS_PER_S = 100_000
TARGET_MILLION_S, TARGET_MILLION_BYTES, MOST_NUMBA_IMPORTS = 300.0, 600e6, 2.5
TARGET_FLEET_S = 60.0


@pytest.fixture(scope="module")
def setting():
    target = load_model("llama-3.1-8b")
    deployment = Deployment(
        architecture=target, device=load_device("h100-sxm"), precision=Precision()
    )
    return Setting(
        deployment=deployment,
        drafter=build_drafter(load_method("eagle-3"), target),
        overhead=load_engine("vllm").overhead("head"),
        plain_overhead=load_engine("vllm").overhead("none"),
    )


def busy(setting, *, speculates, merge=False):
    """256 requests that decode together for some thousand steps."""
    rng = np.random.default_rng(0)
    trace = AcceptanceTrace(offsets=np.arange(0, 200_001, 200), emitted=rng.integers(1, 7, 200_000))
    speculation = (
        SpeculationOptions(topology=5, trace=trace, draft=CostModelDraft(setting))
        if speculates
        else None
    )
    output = int(STEPS * 3.4) if speculates else STEPS
    workload = Workload(
        arrival_s=np.zeros(BATCH),
        prompt_tokens=np.full(BATCH, 200),
        output_tokens=np.full(BATCH, output),
    )
    options = SchedulerOptions(kv_blocks=400_000, max_requests=BATCH)
    return Scenario(
        workload=workload,
        scheduler=options,
        timer=CostModelTimer(setting),
        speculation=speculation,
        merge=merge,
    )


def bare_loop(events=100_000):
    environment = simpy.Environment()

    def ticking():
        for _ in range(events):
            yield environment.timeout(1.0)

    environment.process(ticking())
    start = time.process_time()
    environment.run()
    return (time.process_time() - start) / events


@pytest.mark.benchmark(group="simulator")
@pytest.mark.parametrize(("speculates", "merge"), [(True, False), (False, False), (False, True)])
def test_iterations_at_batch_256(benchmark, setting, cpu_s, aim, speculates, merge):
    scenario = busy(setting, speculates=speculates, merge=merge)
    result = simulate(scenario)
    seconds = cpu_s(lambda: simulate(scenario))
    rate, bare = result.iterations / seconds, 1 / min(bare_loop() for _ in range(5))
    name = f"{'K = 5' if speculates else 'plain'}{', alike iterations together' if merge else ''}"
    print(f"\n{name}: {rate:,.0f} iterations of {BATCH} requests per CPU-second")
    print(
        f"{rate / bare:.2f} of a bare simpy loop's {bare:,.0f} empty events,"
        f" {rate * BATCH / bare:.0f} steps each"
    )
    benchmark.extra_info.update(iterations_per_s=rate, ratio_to_simpy=rate / bare)
    benchmark.pedantic(lambda: simulate(scenario), rounds=1)
    aim("iterations per CPU second", rate, least=TARGET_ITERATIONS_PER_S)


def on_recorded_blocks(root, requests=4_000):
    """Requests that walk along recorded blocks beside a dual cache, each with steps of its own."""
    walked = block_passes(
        read_confidence(root / "traces/recorded/confidence/masked-names--dual-cache.parquet"),
        RefinePolicy(commit="threshold", at={"confidence": 0.5}, cache="dual"),
    )
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    asked = DecodingConfiguration(
        method="adablock", deployment=names, refine=walked.replay.policy, canvas_tokens=64
    )
    setting = build_setting(asked)
    workload = Workload(
        arrival_s=np.zeros(requests),
        prompt_tokens=np.full(requests, 200),
        output_tokens=np.full(requests, 256),
    )
    return Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=400_000, max_requests=BATCH, token_budget=1 << 18),
        timer=CostModelTimer(setting),
        blocks=RecordedBlocks(method=setting.drafter.method, walked=walked),
    )


@pytest.mark.benchmark(group="simulator")
def test_iterations_on_recorded_blocks(benchmark, root, setting, cpu_s):
    """Beside plain decoding of as many requests, one event an iteration."""
    blocks, plain = on_recorded_blocks(root), busy(setting, speculates=False)
    rates = [
        simulate(each).iterations / cpu_s(lambda each=each: simulate(each))
        for each in (blocks, plain)
    ]
    print(f"\nrecorded blocks: {rates[0]:,.0f} iterations of {BATCH} requests per CPU-second")
    print(f"{rates[0] / rates[1]:.2f} of plain decoding's {rates[1]:,.0f}")
    benchmark.extra_info.update(iterations_per_s=rates[0], ratio_to_plain=rates[0] / rates[1])
    benchmark.pedantic(lambda: simulate(blocks), rounds=1)


# the lengths of the conversations that Azure recorded in 2023: means 1155 and 211 tokens, medians
# about 1020 and 129
_MILLION = """
    import json, time
    import numpy as np
    from costmodel.passes.deployment import Deployment
    from costmodel.drafters.drafter import build_drafter
    from costmodel.answers.estimate import Setting
    from costmodel.architectures.library import load_model
    from costmodel.engine_library import load_engine
    from costmodel.method_library import load_method
    from costmodel.passes.precision import Precision
    from hardware_profiles.loader import load_device
    from simulator.timing.cost_timer import CostModelTimer
    from simulator.engine import simulate
    from simulator.loop.request import Workload
    from simulator.loop.options import Scenario, SchedulerOptions
    rng, r = np.random.default_rng(0), {requests}
    target = load_model("llama-3.1-8b")
    deployment = Deployment(architecture=target, device=load_device("h100-sxm"), precision=Precision())
    none = load_engine("vllm").overhead("none")
    drafter = build_drafter(load_method("plain-decoding"), target)
    setting = Setting(deployment=deployment, drafter=drafter, overhead=none, plain_overhead=none)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, r / 30, r)),
        prompt_tokens=np.clip(rng.lognormal(6.75, 0.75, r), 7, 14050).astype(int),
        output_tokens=np.clip(rng.lognormal(4.86, 0.99, r), 1, 1000).astype(int))
    scenario = Scenario(
        workload=workload, scheduler=SchedulerOptions(kv_blocks=28000), timer=CostModelTimer(setting), merge=False)
    began = time.process_time()
    result = simulate(scenario)
    seconds = time.process_time() - began
    print(json.dumps(dict(
        seconds=seconds, total=time.process_time(),
        bytes=1024 * int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]),
        iterations=result.iterations, finished=int(result.finished.sum()),
        prompt=float(workload.prompt_tokens.mean()), output=float(workload.output_tokens.mean()))))
"""


def in_a_process(root, requests):
    code = textwrap.dedent(_MILLION).format(requests=requests)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def numba_alone_s(root):
    code = "import time, numba; print(time.process_time())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@pytest.mark.heavy
@pytest.mark.benchmark(group="simulator")
def test_a_million_requests(benchmark, root, aim):
    in_a_process(root, 10)
    found = in_a_process(root, 1_000_000)
    bare = min(bare_loop() for _ in range(5))
    print(
        f"\n1,000,000 requests of {found['prompt']:.0f} + {found['output']:.0f} tokens:"
        f" {found['seconds']:.1f} CPU s"
    )
    each = found["seconds"] / found["iterations"] / bare
    print(
        f"{found['iterations']:,} iterations, {each:.1f} empty simpy events each;"
        f" {found['bytes'] / 1e6:.0f} MB"
    )
    benchmark.extra_info.update(found)
    benchmark.pedantic(lambda: in_a_process(root, 10), rounds=1)
    assert found["finished"] == 1_000_000
    aim("CPU seconds", found["seconds"], most=TARGET_MILLION_S)
    aim("bytes", found["bytes"], most=TARGET_MILLION_BYTES)


def fleet(setting, requests, replicas, **changes):
    """Conversations behind a router, 20 a second on every replica."""
    rng = np.random.default_rng(0)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, requests / (20 * replicas), requests)),
        prompt_tokens=np.clip(rng.lognormal(6.75, 0.75, requests), 7, 14050).astype(int),
        output_tokens=np.clip(rng.lognormal(4.86, 0.99, requests), 1, 1000).astype(int),
    )
    return Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=28_000),
        timer=CostModelTimer(setting),
        replicas=replicas,
        router="least-loaded",
        **changes,
    )


@pytest.mark.heavy
@pytest.mark.benchmark(group="simulator")
@pytest.mark.parametrize("apart", [False, True])
def test_a_fleet_routed_by_load(benchmark, setting, aim, apart):
    """A million requests on 64 replicas; and against an event an iteration, on few of them."""
    stages = {"disaggregation": Disaggregation(prefill_replicas=32)} if apart else {}
    replicas = 32 if apart else 64
    few = fleet(setting, 500, replicas, **stages)
    simulate(few)
    seconds = {}
    for name, run in (("direct", lambda: simulate(few)), ("events", Service(few).run)):
        began = time.process_time()
        run()
        seconds[name] = time.process_time() - began
    print(f"\n500 requests: {seconds['direct'] / seconds['events']:.3f} of an event an iteration")
    many = fleet(setting, 1_000_000, replicas, **stages)
    began = time.process_time()
    result = simulate(many)
    whole = time.process_time() - began
    print(f"{result.iterations:,} iterations, {result.iterations / whole:,.0f} a CPU second")
    benchmark.extra_info.update(
        seconds=whole, ratio_to_events=seconds["direct"] / seconds["events"]
    )
    benchmark.pedantic(lambda: simulate(few), rounds=1)
    assert result.finished.all()
    aim("CPU seconds of a million requests", whole, most=TARGET_FLEET_S)


ROUTERS = (
    ("round-robin", 0.0),
    ("random", 0.0),
    ("least-loaded", 0.0),
    ("least-loaded", 1.0),
    ("prefix", 0.0),
    ("prefix", 1.0),
)


@pytest.mark.benchmark(group="simulator")
def test_routers_of_four_replicas(benchmark, setting, cpu_s, aim):
    """The same requests behind every router; those of 200 documents share their first blocks."""
    rng, count = np.random.default_rng(0), 20_000
    prompts = np.clip(rng.lognormal(6.4, 1.0, count), 16, 16_000).astype(int)
    documents = rng.integers(0, 200, count).tolist()
    shared = [
        range(1000 * d, 1000 * d + min(p // 16, 30))
        for d, p in zip(documents, prompts, strict=True)
    ]
    own = [
        range(10**7 + 1000 * i, 10**7 + 1000 * i + p // 16 - len(s))
        for i, (p, s) in enumerate(zip(prompts.tolist(), shared, strict=True))
    ]
    workload = Workload(
        arrival_s=np.cumsum(rng.exponential(1 / 18.0, count)),
        prompt_tokens=prompts,
        output_tokens=1 + rng.geometric(1 / 250, count),
        prefix_ids=tuple((*s, *o) for s, o in zip(shared, own, strict=True)),
    )
    scenario = Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=28_000, prefix_cache=True),
        timer=CostModelTimer(setting),
        replicas=4,
    )
    seconds = {}
    for router, report_s in ROUTERS:
        routed = replace(scenario, router=router, report_s=report_s)
        simulate(routed)
        seconds[router, report_s] = cpu_s(lambda routed=routed: simulate(routed), rounds=3)
    cheapest = min(seconds.values())
    print()
    for (router, report_s), used in seconds.items():
        print(f"{router}, reports every {report_s} s: {used:.2f} CPU s, {used / cheapest:.2f}")
    benchmark.extra_info.update({f"{r}-{s}": used for (r, s), used in seconds.items()})
    benchmark.pedantic(lambda: simulate(scenario), rounds=1)
    aim("dearest router over the cheapest", max(seconds.values()) / cheapest, most=2.0)


_COMMAND = "import sys; from app.cli.main import main; sys.exit(main(sys.argv[1:]))"
_WORDS = (
    "simulate --model llama-3.1-8b --count 10 --prompt-tokens 100 --output-tokens 10 --rate 5"
    " --quiet"
)


def command_s(root):
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", _COMMAND, *_WORDS.split()],
        cwd=root,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


@pytest.mark.benchmark(group="simulator")
def test_start_up(benchmark, root, aim):
    """One second is the aim, stated as a ratio to importing numba."""
    rounds = [
        (in_a_process(root, 10)["total"], command_s(root), numba_alone_s(root)) for _ in range(5)
    ]
    library, command, bare = (min(column) for column in zip(*rounds, strict=True))
    print(
        f"\nstart-up with a first simulation of ten requests: {library:.2f} CPU s,"
        f" {library / bare:.1f} numba imports"
    )
    print(
        f"`rooftree simulate` of ten short requests: {command:.2f} CPU s, {command / bare:.1f}"
        " numba imports"
    )
    benchmark.extra_info.update(seconds=library, command_seconds=command)
    benchmark.pedantic(lambda: in_a_process(root, 10), rounds=1)
    aim(
        "slower of both, in imports of numba", max(library, command) / bare, most=MOST_NUMBA_IMPORTS
    )


def short(setting, seed, requests=200):
    """Two hundred requests, half of them shorter than a hundred tokens, with timers of their
    own."""
    rng = np.random.default_rng(seed)
    trace = AcceptanceTrace(offsets=np.arange(0, 20_001, 200), emitted=rng.integers(1, 7, 20_000))
    speculation = SpeculationOptions(
        topology=1 + seed % 5, trace=trace, draft=CostModelDraft(setting)
    )
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0.0, requests / 20.0, requests)),
        prompt_tokens=np.clip(rng.lognormal(6.0, 0.7, requests), 7, 4000).astype(int),
        output_tokens=np.clip(rng.lognormal(4.5, 0.9, requests), 1, 800).astype(int),
    )
    return Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=28_000),
        timer=CostModelTimer(setting),
        speculation=speculation,
        seed=seed,
    )


@pytest.mark.benchmark(group="simulator")
def test_short_simulations(benchmark, setting, cpu_s, aim):
    """What a thousand of them would take, tables included; and of that the simulations
    themselves."""
    whole = cpu_s(lambda: [simulate(short(setting, seed)) for seed in range(20)], rounds=2)
    scenario = short(setting, 0)
    alone = cpu_s(lambda: simulate(scenario))
    print(
        f"\n200 requests: {whole / 20 * 1e3:.0f} CPU ms, of which {alone * 1e3:.0f} once the tables"
        " are there"
    )
    benchmark.extra_info.update(seconds=whole / 20, alone_seconds=alone)
    benchmark.pedantic(lambda: simulate(scenario), rounds=1)
    aim("CPU seconds of a thousand", whole * 50, most=60.0)
