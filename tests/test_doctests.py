"""Every example in a docstring runs and prints what it says, and the front doors open with one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

PACKAGES = ("hardware_profiles", "traces", "costmodel", "simulator", "app", "real_runs", "rooftree")
FRONT_DOORS = (
    "hardware_profiles.loader.load_device",
    "traces.importers.formats.import_requests",
    "traces.importers.formats.read_trace_any",
    "traces.kinds.tree.Tree",
    "traces.library.trace_file",
    "traces.replay.dynamic.walk_policy",
    "traces.replay.sampled.replay_sampled",
    "traces.replay.walk.replay_chain",
    "traces.replay.walk.replay_tree",
    "costmodel.answers.breakeven.break_even",
    "costmodel.answers.capacity.plan",
    "costmodel.answers.estimate.estimate",
    "costmodel.answers.explain.explain",
    "costmodel.configuration.decoding.DecodingConfiguration",
    "costmodel.engine_library.load_engine",
    "costmodel.laws.acceptance.geometric",
    "costmodel.method.Method",
    "costmodel.method_library.load_method",
    "costmodel.optimizers.recommend.recommend",
    "costmodel.optimizers.search.search",
    "costmodel.optimizers.trees.static_tree.optimal_trees",
    "costmodel.optimizers.trees.trace_tree.trace_tree",
    "costmodel.passes.forward.pass_cost",
    "simulator.engine.simulate",
    "simulator.scenario.file.checked_scenario",
    "real_runs.prompt_set.read_prompts",
    "app.exporters.registry.export",
    "rooftree.predict",
)


def modules():
    for package in PACKAGES:
        yield package
        for module in pkgutil.walk_packages(
            importlib.import_module(package).__path__, f"{package}."
        ):
            yield module.name


def test_examples_run():
    tried = 0
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name in ("torch", "transformers", "gguf", "safetensors", "plotly"):
                continue
            raise
        if ">>>" not in inspect.getsource(module):
            continue  # to look for examples takes longer than to run them
        result = doctest.testmod(module)
        assert result.failed == 0, name
        tried += result.attempted
    if tried < 20:
        pytest.fail(f"only {tried} examples were found")


@pytest.mark.parametrize("name", FRONT_DOORS)
def test_front_doors_open_with_an_example(name):
    """A newcomer reads one sentence, then calls that work, then the arguments."""
    module, _, attribute = name.rpartition(".")
    paragraphs = inspect.getdoc(getattr(importlib.import_module(module), attribute)).split("\n\n")
    assert paragraphs[1].startswith("Example:\n    >>> "), name
