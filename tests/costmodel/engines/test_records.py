"""Records of engines: every number with its source, published defaults, impossible values."""

import importlib
import json
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

import costmodel
from costmodel import engine_library
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_module, engine_names, load_engine
from costmodel.engines.record.engine import ANY, Engine
from costmodel.engines.record.memory import Memory
from costmodel.engines.record.options import Drafting
from costmodel.engines.record.overhead import Overhead
from costmodel.engines.record.releases import Gate
from costmodel.method_library import load_method, method_names
from costmodel.scheduler import Scheduler
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.units import GIB, MIB

ROOT = Path(costmodel.__file__).parents[1]


@pytest.fixture(scope="module")
def h100():
    return load_device("h100-sxm")


@pytest.fixture(params=engine_names())
def engine(request):
    return load_engine(request.param)


def parts(value):
    """A record and everything in it."""
    if is_dataclass(value):
        yield value
        for field in fields(value):
            yield from parts(getattr(value, field.name))
    elif isinstance(value, dict):
        for each in value.values():
            yield from parts(each)


def test_every_part_with_numbers_names_its_source(engine):
    for part in parts(engine):
        if not isinstance(part, Engine | Gate | Drafting | Scheduler):
            assert len(part.source) > 20, part


def test_an_engine_without_published_numbers_says_so(engine):
    texts = [part.source for part in parts(engine) if isinstance(part, Overhead | Memory)]
    if engine.scheduler is None and engine.name != "none":
        assert all("ASSUMED" in text for text in texts)


def test_every_way_of_drafting_has_a_name_and_a_release(engine):
    options = engine.options
    for drafting in options.drafting.values() if options is not None else ():
        assert drafting.name
        assert any(options.admits(drafting.releases, release) for release in options.releases)


@pytest.mark.parametrize(
    ("part", "key"),
    [
        ({"default": "9.9"}, "default"),
        ({"several_requests": Gate(first="9.9")}, "several_requests"),
        ({"parallel": {"tensor": Gate(first="0.8.5", last="9.9")}}, "parallel.tensor"),
    ],
)
def test_a_gate_is_of_releases_that_were_read(part, key):
    with pytest.raises(InputError, match=rf"^{key}: must be one of the releases"):
        replace(load_engine("vllm").options, **part)


def test_a_gate_of_a_way_of_drafting_is_of_releases_that_were_read():
    options = load_engine("vllm").options
    for name, gate in (("stop", Gate(first="9.9")), ("variants", {"x": Gate(first="9.9")})):
        drafting = {"ngram": replace(options.drafting["ngram"], **{name: gate})}
        with pytest.raises(InputError, match=rf"^drafting\.ngram\.{name}"):
            replace(options, drafting=drafting)


def test_names_are_found_however_they_are_spelt(engine):
    for name in (engine.name, engine.name.upper(), *engine.aliases):
        assert load_engine(name) is engine
    module = importlib.import_module(f"costmodel.engines.{engine_module(engine.name)}")
    assert module.ENGINE is engine


def test_an_unknown_engine_is_refused_with_the_nearest_names():
    with pytest.raises(UnknownNameError, match="vllm"):
        load_engine("vlm")


def test_vllm_takes_smaller_batches_on_small_devices_and_on_a100(h100):
    large = load_engine("vllm").on(h100).scheduling
    assert large.token_budget == 8192
    assert load_engine("vllm").on(load_device("a100-sxm-80")).scheduling.token_budget == 2048
    assert load_engine("vllm").on(load_device("l4")).scheduling.max_requests < large.max_requests


def test_sglang_reserves_the_same_bytes_on_every_device(h100):
    memory = load_engine("sglang").memory
    apart = {
        name: (
            (1.0 - memory.ratio_of(load_device(name).memory_bytes))
            * load_device(name).memory_bytes
            / MIB
        )
        for name in ("h100-sxm", "h200-sxm", "a100-sxm-80", "b200-sxm")
    }
    assert apart == pytest.approx(dict.fromkeys(apart, 512 + 1.5 * 8192 + 2 * 256 + 128))
    assert round(memory.ratio_of(h100.memory_bytes), 3) == 0.835


def test_an_engine_plans_with_what_its_log_says(h100):
    """vLLM on an H100: 79.22 GiB, of which 0.90 are 71.29 (its pull request 12126)."""
    memory = load_engine("vllm").memory
    seen = h100.memory_bytes - memory.unseen_bytes
    assert seen / GIB == pytest.approx(79.22)
    given = memory.cache_bytes(h100.memory_bytes, weights_bytes=0.0, activations_bytes=0.0)
    assert float(given) / GIB == pytest.approx(71.29, abs=0.01)
    kept = {
        name: load_engine(name).memory.unseen_bytes / GIB
        for name in ("vllm", "sglang", "tensorrt-llm")
    }
    assert (
        0.3 < kept["vllm"] < kept["sglang"] == kept["tensorrt-llm"] < 1.5
    )  # a process's context comes on top


def test_engines_differ_in_how_prompts_meet_decodes():
    vllm, tensorrt, sglang = (load_engine(name).scheduling for name in ("vllm", "trtllm", "sglang"))
    assert vllm.chunked_prefill and not vllm.prefill_first
    assert not tensorrt.chunked_prefill and tensorrt.reserve_ratio == 1.0
    assert sglang.prefill_first


def test_kernels_that_do_not_split_the_cache():
    a100, h100 = load_device("a100-sxm-80"), load_device("h100-sxm")
    splits = {
        name: (load_engine(name).splits_verify(a100), load_engine(name).splits_verify(h100))
        for name in ("vllm", "transformers", "none")
    }
    assert splits == {"vllm": (False, True), "transformers": (False, False), "none": (True, True)}
    with_engine, bare = (
        build_setting(
            DecodingConfiguration(
                deployment=DeploymentNames(model="llama-3.1-8b", device="a100-sxm-80", engine=name)
            )
        )
        for name in ("vllm", "none")
    )
    assert bare.deployment.split_verify and not with_engine.deployment.split_verify


@pytest.mark.parametrize(
    ("version", "overlaps"),
    [
        ("0.11.2", False),
        ("v0.12.0", False),
        ("0.14.0", True),
        ("v0.18.0rc1", True),
        ("1.0", True),
        (None, True),
        ("latest", True),
    ],
)
def test_vllm_schedules_ahead_from_0_14_on(version, overlaps, h100):
    assert load_engine("vllm").on(h100, version).scheduling.overlapped_scheduling == overlaps
    assert load_engine("trtllm").on(h100, version).scheduling.overlapped_scheduling
    assert load_engine("sglang").on(h100, version).scheduling.overlapped_scheduling


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("scheduler", "token_budget", 0),
        ("scheduler", "max_requests", 0),
        ("scheduler", "reserve_ratio", -0.1),
        ("memory", "ratio", 0.0),
        ("memory", "ratio", 1.5),
        ("memory", "unseen_bytes", -1.0),
        ("memory", "unseen_bytes", float("nan")),
        ("memory", "block_tokens", 0),
    ],
)
def test_impossible_limits_are_refused(part, key, value):
    with pytest.raises(InputError, match=key):
        replace(getattr(load_engine("vllm"), part), **{key: value})


def test_every_engine_needs_an_overhead_for_any_drafter():
    with pytest.raises(InputError, match="overheads"):
        replace(load_engine("vllm"), overheads={"lookup": load_engine("vllm").overhead("lookup")})


TOY = """
from costmodel.engines.record.engine import ANY, Engine, Kernels
from costmodel.engines.record.memory import Memory
from costmodel.engines.record.options import Drafting, Options
from costmodel.engines.record.overhead import Overhead
from costmodel.engines.record.releases import Gate

READ, NO = Gate(first="1.0"), "the toy has none"
ENGINE = Engine(
    name="toy",
    overheads={ANY: Overhead(engine="toy", versions="1", step_s=2e-3, draft_s=1e-3, source="a test")},
    kernels=Kernels(graphs=False, source="a test"),
    memory=Memory(ratio=0.25, block_tokens=64, pass_tokens=0, source="a test"),
    options=Options(
        releases=("1.0",), default="1.0", without={}, parallel={"tensor": NO}, several_requests=READ, source="a test",
        drafting={
            "ngram": Drafting(
                name="ngram", releases=READ, static_tree=NO, dynamic_tree=NO, schedule=NO, stop=NO, synthetic=NO
            )
        },
    ),
)
"""
TOY_EXPORTER = """
from app.exporters.result import Written


def export_toy_engine(chosen, dialect, *, synthetic, approximate):
    return Written(files={"toy.txt": "toy"}, command="toy", notes=())
"""


def forget_engines():
    engine_library._shipped.cache_clear()
    engine_library._records.cache_clear()


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """An engine of two files: its record, and how its configurations are written."""
    import app.exporters
    from costmodel import engines

    for package, text in ((engines, TOY), (app.exporters, TOY_EXPORTER)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "toy_engine.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    forget_engines()
    yield "toy"
    forget_engines()
    for package in (engines, app.exporters):
        sys.modules.pop(f"{package.__name__}.toy_engine", None)


def test_a_file_adds_an_engine_to_every_command(toy, capsys, tmp_path):
    from app.cli.main import main

    def answered(*arguments):
        assert main([*arguments, "--json", "--engine", toy]) in (0, None)
        return json.loads(capsys.readouterr().out)

    assert toy in engine_names()
    shared = ("--model", "smollm2-135m", "--device", "l4")
    predicted = answered(
        "predict", *shared, "--method", "n-gram", "--acceptance", "0.6", "--batch", "1"
    )
    assert predicted["inputs"]["engine"] == toy
    assert all(point["breakdown_s"]["overhead"] >= 2e-3 for point in predicted["predictions"])
    plans = answered("capacity", *shared, "--rate", "1", "--prompt", "500", "--output", "100")[
        "plans"
    ]
    device = load_device("l4")
    assert plans[0]["memory"]["usable_bytes"] == pytest.approx(0.25 * device.memory_bytes)
    recorded = ROOT / "traces" / "recorded" / "smollm2-135m--prompt-lookup--greedy.parquet"
    found = answered(
        "optimize",
        "--trace",
        str(recorded),
        "--device",
        "l4",
        "--batch",
        "1,4",
        "--context",
        "512",
        "--out",
        str(tmp_path / "out"),
    )
    assert found["inputs"]["engine"] == toy


def test_two_files_write_the_configurations_of_an_engine(toy):
    from app.exporters.registry import export

    def chosen(**changes):
        return DecodingConfiguration(
            deployment=DeploymentNames(model="smollm2-135m"),
            **({"method": "n-gram", "draft_tokens": 3} | changes),
        )

    with pytest.raises(InputError, match="toy"):
        export(chosen(), toy)  # the method's entry names the engines that run it
    assert export(
        DecodingConfiguration(deployment=DeploymentNames(model="smollm2-135m")), toy
    ).files
    with pytest.raises(InputError, match="the toy has none"):
        export(
            DecodingConfiguration(
                deployment=DeploymentNames(model="smollm2-135m", tensor_parallel=2)
            ),
            toy,
        )


def test_methods_are_in_the_engines_that_they_name():
    for slug in method_names():
        for name, called in load_method(slug).engines.items():
            options = load_engine(name).options
            assert options is not None
            assert called == "plain" or called in options.drafting or slug in options.without, (
                slug,
                name,
            )


def test_overheads_are_looked_up_by_who_drafts():
    vllm = load_engine("vllm")
    assert vllm.overhead("lookup").verify_ratio > 0.0 == vllm.overhead("lookup").draft_s
    assert vllm.overhead("head") == vllm.overhead("model") == vllm.overheads[ANY]
