"""Every number and every rule of an engine's record is executed: change it, and a time, an amount
of memory, a written file or a refusal moves."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from app.answers.methods.changed_records import moving_questions
from app.exporters import dialect
from app.exporters.registry import export
from costmodel.answers import settings
from costmodel.answers.estimate import estimate, intervals
from costmodel.answers.fit import room
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names, load_engine
from costmodel.engines.record.releases import Gate
from costmodel.laws.acceptance import geometric
from costmodel.method import Stop
from costmodel.method_library import load_method, method_names
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision, Stored
from hardware_profiles.errors import RooftreeError
from hardware_profiles.loader import load_device
from simulator.closed_loop import table_rows
from simulator.closed_loop.serve import serve
from simulator.closed_loop.users import Users
from simulator.engine import simulate
from simulator.scenario import build
from simulator.scenario.arrivals import sharing
from simulator.scenario.file import checked_scenario
from simulator.timing.engine_passes import EnginePasses
from traces.kinds.tree import Tree

pytestmark = pytest.mark.heavy

FOR_READERS = frozenset({"source", "versions", "engine", "name", "aliases"})

OLDER = {
    "0.11.0": ("in 8 bits", "dense"),
    "0.13.0": ("in 8 bits",),
    "0.18.0": ("latent on Blackwell",),
}
EIGHT = Precision(weights="fp8", activations="fp8", kv="fp8")
CAPABILITIES = ("static_tree", "dynamic_tree", "schedule", "stop", "synthetic")
PASSES = {
    # model, device, number formats and devices that share the model
    "dense": ("llama-3.1-8b", "h100-sxm", Precision(), 1),
    "in 8 bits": ("llama-3.1-8b", "h100-sxm", EIGHT, 1),
    "normed heads": ("qwen3-8b", "h100-sxm", Precision(), 1),
    "split": ("llama-3.1-70b", "h100-sxm", Precision(), 4),
    "split in 8 bits": ("llama-3.1-70b", "h100-sxm", EIGHT, 4),
    "shared by two over the host": ("llama-3.1-8b", "l40s", Precision(), 2),
    "shared by four over the host": ("llama-3.1-8b", "l40s", Precision(), 4),
    "sparse": ("gpt-oss-120b", "h100-sxm", Precision(experts=Stored("fp4-g32", "bf16")), 2),
    "sparse on Blackwell": (
        "gpt-oss-120b",
        "b200-sxm",
        Precision(experts=Stored("fp4-g32", "fp8")),
        2,
    ),
    "latent": ("deepseek-r1", "h200-sxm", EIGHT, 8),
    "latent on Blackwell": ("deepseek-r1", "b200-sxm", EIGHT, 8),
    "latent on CDNA": ("deepseek-r1", "mi300x", EIGHT, 8),
    "latent on CDNA 4": ("deepseek-r1", "mi355x", EIGHT, 8),
    "latent in 4 bits": ("deepseek-r1", "b200-sxm", Precision(weights="fp4", activations="fp4"), 8),
}
SERVED = {
    "few": Users(users=3, prompt_tokens=300, output_tokens=4, requests_per_user=2),
    "many": Users(users=40, prompt_tokens=1500, output_tokens=3, requests_per_user=1),
}
BURST = Users(users=6, prompt_tokens=64, output_tokens=2, requests_per_user=1, cold=True)
ROW = {
    "id": "a",
    "model_path": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "precision": "fp8",
    "isl": 300,
    "osl": 4,
    "concurrency": 3.0,
}

BATCHES, CONTEXTS = np.array([1.0, 16.0]), np.array([20_000.0, 900.0])
DRAFTS = {
    "lookup": ("n-gram", None),
    "model": ("speculative-decoding", "llama-3.2-1b"),
    "head": ("eagle-3", None),
    "rows": ("lookahead", None),
}
TREE = Tree.from_paths([(0,), (1,), (0, 0)])
DYNAMIC = load_method("eagle-2").shape
INERT = {"none": {"overheads[*].spread_ratio"}}  # of no seconds at all
WHERE = {
    "tensor": {"tensor_parallel": 2},
    "pipeline": {"pipeline_parallel": 2},
    "expert": {"expert_parallel": 2},
    "data": {"data_parallel": 2},
    "context": {"context_parallel": 2},
    "nodes": {"tensor_parallel": 16},
}


@pytest.fixture
def ask(monkeypatch):
    """Puts a question about a record of an engine, which every lookup of its name finds
    meanwhile."""
    current = []

    def known(name):
        return current[-1] if name == current[-1].name else load_engine(name)

    for module in (settings, table_rows, dialect):
        monkeypatch.setattr(module, "load_engine", known)

    def answer(engine, question):
        current[:] = [engine]
        try:
            return question()
        except RooftreeError as error:
            return f"{type(error).__name__}: {error}"

    return answer


def questions(engine):
    """What is asked about an engine beside its options, by name, the cheap ones first."""
    bursts = ("h200-sxm", "mi300x", "mi355x", "b200-sxm", "a100-sxm-80")
    small = ("h100-sxm", "a100-sxm-80", "l4")
    return {
        **{f"priced with {by}": partial(price, engine, *draft) for by, draft in DRAFTS.items()},
        "on an A100": partial(price, engine, "n-gram", None, device="a100-sxm-80"),
        "in 32 bits": partial(price, engine, "plain-decoding", None, model="gpt2"),
        **{
            f"passes {name} of {release}": partial(passes, engine, release, *PASSES[name])
            for release, names in {None: PASSES, **OLDER}.items()
            for name in names
        },
        **{f"a first burst on {name}": partial(times, engine, name, BURST) for name in bursts},
        **{
            f"{name} on {device}": partial(times, engine, device, users)
            for device in small
            for name, users in SERVED.items()
        },
        "few of an older release": partial(times, engine, "h100-sxm", SERVED["few"], "0.13.0"),
        "a row of a table": partial(row_times, engine),
        **{f"simulated on {name}": partial(simulated, engine, name) for name in small[:2]},
    }


def passes(engine, release, model, device, formats, devices):
    """Seconds by operation of steps that decode and of a prompt, requests sampled by top-p."""
    deployment = Deployment(
        architecture=load_model(model),
        device=load_device(device),
        precision=formats,
        tensor_parallel=devices,
    )
    own = EnginePasses(deployment, engine.on(deployment.device, release), cuts=True)
    shapes = (
        {"batch": np.array([1.0, 48.0, 120.0]), "query_tokens": 1.0, "context": 9000.0},
        {"batch": 1.0, "query_tokens": 700.0, "context": 0.0, "prefill": True},
    )
    seconds = [own.seconds(**shape) for shape in shapes]
    return [{name: np.asarray(value).tolist() for name, value in s.items()} for s in seconds]


def times(engine, device, users, release=None):
    """Means that the users of a closed loop see."""
    deployment = Deployment(
        architecture=load_model("llama-3.1-8b"), device=load_device(device), precision=Precision()
    )
    served = serve(deployment, engine.on(deployment.device, release), users)
    return served.ttft_s, served.tpot_s


def row_times(engine):
    """What a table's row is answered, where weights are narrow and it says nothing of the cache."""
    (answer,) = table_rows.answer_rows([ROW | {"backend": engine.name}], file="a table")
    return answer.reason, answer.ttft_ms, answer.tpot_ms


def price(engine, slug, draft, *, model="llama-3.1-8b", device="h100-sxm"):
    """Memory, and steps, speedups and their intervals, of a chain of three, and the step of a
    schedule that drafts nothing."""
    setting = settings.build_setting(
        DecodingConfiguration(
            method=slug,
            draft_model=draft,
            deployment=DeploymentNames(
                model=model, device=device, engine=engine.name, tensor_parallel=2
            ),
        )
    )
    accepted = geometric(0.7, 3 if load_method(slug).drafts else 0)
    answer = estimate(setting, accepted, batch=BATCHES, context=CONTEXTS)
    bounds = intervals(setting, answer, batch=BATCHES, generator=np.random.default_rng(0))
    idle = replace(setting, keeps_drafter=True)
    nothing = estimate(idle, geometric(0.0, 0), batch=BATCHES, context=CONTEXTS)
    numbers = (answer.step_s, answer.speedup, *bounds.speedup, nothing.step_s)
    return room(setting, accepted, context=900), [number.tolist() for number in numbers]


def simulated(engine, device):
    """Clock and counters of requests that share a prefix, draft, and wait for room in the cache."""
    written = {
        "requests": {
            "count": 24,
            "prompt_tokens": "uniform:50:2000",
            "output_tokens": 60,
            "arrivals": "poisson",
            "rate_per_s": 200,
        },
        "deployment": {
            "model": "llama-3.1-8b",
            "device": device,
            "engine": engine.name,
        },
        "speculation": {"acceptance": 0.7, "draft_tokens": 4, "method": "n-gram"},
    }
    scenario = build.prepare(checked_scenario(written)).scenario(1)
    prompts = sharing(scenario.workload, 256, scenario.scheduler.block_tokens)
    little = replace(scenario.scheduler, kv_blocks=9000 // scenario.scheduler.block_tokens)
    result = simulate(replace(scenario, workload=prompts, scheduler=little))
    return result.clock_s, sorted(result.counters.items())


def exports(engine):
    """What releases write or refuse for every way of drafting, every shape and every plan."""
    for release in (*load_engine(engine.name).options.releases, None):
        for slug in chosen_methods(engine.name):
            yield f"{slug} written for {release}", partial(written, engine, release, slug)
        for kind, sizes in WHERE.items():
            yield (
                f"{kind} written for {release}",
                partial(exported, engine, release, "plain-decoding", where=sizes),
            )


def chosen_methods(name):
    """A method for every way of drafting that an engine has, and those that it lacks by name."""
    options = load_engine(name).options
    ways = {
        way: slug
        for slug in reversed(method_names())
        if (way := load_method(slug).engines.get(name)) in options.drafting
    }
    return [*ways.values(), *options.without]


def written(engine, release, slug):
    way = engine.options.drafting.get(load_method(slug).engines.get(engine.name, ""))
    return [
        exported(engine, release, slug),
        exported(engine, release, slug, max_batch=4),
        exported(engine, release, slug, shape=TREE, draft_tokens=TREE.draft_tokens),
        exported(engine, release, slug, shape=DYNAMIC, draft_tokens=DYNAMIC.nodes),
        exported(engine, release, slug, schedule=((1, 16, 5), (17, 64, 3))),
        exported(engine, release, slug, stop=Stop(rule="probability", at=0.5)),
        *(exported(engine, release, slug, stop=Stop(rule=rule)) for rule in ("cost", "ema")),
        exported(engine, release, slug, synthetic=True),
        *(exported(engine, release, slug, variant=name) for name in (way.variants if way else ())),
    ]


def exported(engine, release, slug, *, where=None, synthetic=False, variant="", **changes):
    method = load_method(slug)
    own = {"draft_tokens": 5} if method.drafts else {}
    if method.needs_trained_weights or method.needs_draft_model:
        own["draft_model"] = "drafts/head"
    model = "deepseek-ai/DeepSeek-V3" if method.drafts_with_target_layers else ROW["model_path"]
    try:
        return export(
            DecodingConfiguration(
                method=slug,
                context=1024,
                ngram_min=2,
                ngram_max=2,
                deployment=DeploymentNames(model=model, **(where or {})),
                **(own | changes),
            ),
            engine.name,
            release,
            synthetic=synthetic,
            variant=variant,
        )
    except RooftreeError as error:
        return f"{type(error).__name__}: {error}"


def still_fields(moved):
    return {field for field, question in moved.items() if question is None}


@pytest.mark.parametrize("name", engine_names())
def test_every_field_that_an_engine_sets_moves_something(name, ask):
    moved = moving_questions(load_engine(name), questions, ask, prose=FOR_READERS | {"options"})
    assert still_fields(moved) == INERT.get(name, set())


@pytest.mark.parametrize("name", [name for name in engine_names() if load_engine(name).options])
def test_every_capability_that_an_engine_states_moves_what_is_written(name, ask):
    engine = load_engine(name)

    def with_options(options):
        return replace(engine, options=options)

    moved = moving_questions(
        engine.options,
        lambda options: dict(exports(with_options(options))),
        lambda options, question: ask(with_options(options), question),
        prose=FOR_READERS,
        words=dict.fromkeys(("first", "last", "default"), engine.options.releases),
    )
    assert still_fields(moved) <= unreachable(engine.options)


def unreachable(options):
    """Fields of options that others decide for them: a configuration never gets so far."""
    paths = {"releases"}  # without one, gates that name it are refused; twice, it says no more
    if not any(isinstance(options.parallel[kind], Gate) for kind in ("tensor", "pipeline", "data")):
        paths.add("parallel[nodes]")  # whoever fills several nodes spreads a model in some way
    for way, drafting in options.drafting.items():
        if way == "ngram":
            paths.add("drafting[ngram].unlikely_tokens")  # looked up, without probabilities
        if not isinstance(options.several_requests, Gate):
            paths.add(f"drafting[{way}].schedule")  # a schedule is of several batch sizes
        gates = {name: getattr(drafting, name) for name in CAPABILITIES}
        gates |= {f"variants[{name}]": gate for name, gate in drafting.variants.items()}
        for name, gate in gates.items():
            if isinstance(gate, Gate) and all(
                options.admits(gate, release)
                for release in options.releases
                if options.admits(drafting.releases, release)
            ):
                # as long as the way of drafting itself, so that no release has it without this
                paths |= {f"drafting[{way}].{name}.{field}" for field in ("first", "last", "why")}
    return paths
