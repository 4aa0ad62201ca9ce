"""Timed loops write what untimed loops write, the prompt is read once, and phases fit into the
whole."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.target import Target
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.prompt_set import Prompt, prompt_set
from real_runs.recording.options import RecordOptions
from real_runs.trials.trials import PromptCell
from real_runs.validation.configurations import Configuration, chain, recycling, static_tree
from real_runs.validation.own_loop.decoder import LoopDecoder
from real_runs.validation.own_loop.recordings import make_recordings
from real_runs.validation.runs import Run
from real_runs.validation.walk import walk

TEXTS = {
    "a": "one two one two one two",
    "b": "xyzzy xyzzy plugh",
    "c": "aaaa bbbb aaaa bbbb",
    "d": "0 1 2 3 0 1 2 3",
}
SINGLES = [
    Configuration(),
    chain("prompt-lookup", 3),
    chain("suffix-automaton", 2),
    chain("early-exit", 2),
    static_tree("early-exit", 5),
    chain("layer-skip", 2),
    recycling(9),
]
TOGETHER = [
    Configuration(),
    chain("prompt-lookup", 3),
    chain("early-exit", 2),
    static_tree("early-exit", 5),
]


@pytest.fixture(scope="module")
def target(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    source = find_model(tiny_folder)
    weights = load_weights(source)
    options = RecordOptions(
        out=folder,
        model=tiny_folder,
        fit_answers=0,
        fit_characters=2000,
        exit_layer=1,
        skipped_layers=(1, 2),
        max_new_tokens=14,
        threads=1,
        drafters=(
            "prompt-lookup",
            "suffix-automaton",
            "early-exit",
            "layer-skip",
            "token-recycling",
        ),
    )
    prompts = prompt_set(
        "four", [Prompt(id=key, kind="k", text=text) for key, text in TEXTS.items()]
    )
    return Target(
        model=Llama(weights),
        tokenizer=Tokenizer(source.path),
        sha256=weights.sha256,
        options=options,
        prompts=prompts,
        folder=folder,
    )


@pytest.fixture(scope="module")
def bench(target):
    return LoopDecoder(target, max_new_tokens=14)


def cell(batch):
    prompts = tuple(TEXTS) if batch > 1 else tuple(TEXTS)[:2]
    return PromptCell(phase="score", kind="k", context=0, batch=batch, prompts=prompts)


@pytest.mark.parametrize("configuration", SINGLES, ids=lambda each: each.name)
def test_one_request_writes_its_plain_text_whoever_drafts(bench, target, configuration):
    plain = generate(
        target.model,
        bench.ids["a"],
        Sampler(temperature=0.0, seed=0, request="a", positions=1),
        max_new_tokens=14,
    )
    made = [bench.run(configuration, ("a",)) for _ in range(2)]
    assert (
        made[0]["output_sha256"]
        == made[1]["output_sha256"]
        == bench.run(Configuration(), ("a",))["output_sha256"]
    )
    assert made[1]["tokens"] == len(plain.tokens) - 1
    run = Run.from_json(
        {**made[1], "cell": "x", "configuration": "y", "prompts": ["a"], "round": 0}
    )
    assert run.steps == len(run.passes) == run.request_steps
    assert 0 < run.verify_s + run.draft_s <= run.decode_s * 1.001
    assert run.rest_s >= 0 and run.prefill_s == 0.0
    assert all(b == 1 and 1 <= n <= configuration.draft_tokens + 1 for b, n, _, _ in run.passes)


@pytest.mark.parametrize("configuration", TOGETHER, ids=lambda each: each.name)
def test_requests_together_write_the_plain_texts(bench, configuration):
    together = bench.run(configuration, tuple(TEXTS))
    plain = bench.run(Configuration(), tuple(TEXTS))
    assert together["output_sha256"] == plain["output_sha256"]
    assert together["request_steps"] >= together["steps"] and together["passes"][0][0] == 4


def test_a_copied_prompt_gives_the_same_text_as_a_read_one(target):
    fresh, again = LoopDecoder(target, max_new_tokens=10), LoopDecoder(target, max_new_tokens=10)
    first = fresh.run(chain("early-exit", 3), ("c",))
    again.run(Configuration(), ("c",))
    second = again.run(chain("early-exit", 3), ("c",))
    assert first["prefill_s"] > 0.0 == second["prefill_s"]
    assert first["output_sha256"] == second["output_sha256"] and first["steps"] == second["steps"]


def test_walks_of_recordings_take_the_steps_that_the_loops_take(bench, target, tmp_path):
    from dataclasses import replace

    cells = [replace(cell(1), phase=phase) for phase in ("fit", "score")]
    recordings = make_recordings(replace(target.options, out=tmp_path), target.prompts, cells)
    every = [each for each in SINGLES if each.drafter != "token-recycling"] + [recycling(17)]
    for configuration in every:
        places = recordings.places(configuration, ("b",))
        predicted = walk(recordings.of(configuration), configuration, places)
        made = bench.run(configuration, ("b",))
        assert [n for _, n, _, _ in made["passes"]] == predicted.query_tokens.tolist(), (
            configuration.name
        )
        assert [c for _, _, c, _ in made["passes"]] == predicted.context.tolist(), (
            configuration.name
        )
        assert made["tokens"] == predicted.tokens == recordings.output_tokens(("b",))
    for configuration in TOGETHER:
        places = recordings.places(configuration, tuple(TEXTS))
        predicted = walk(recordings.of(configuration), configuration, places)
        made = bench.run(configuration, tuple(TEXTS))
        assert [(b, n, c) for b, n, c, _ in made["passes"]] == list(
            zip(
                *(
                    each.tolist()
                    for each in (predicted.requests, predicted.query_tokens, predicted.context)
                ),
                strict=True,
            )
        ), configuration.name
    again = make_recordings(replace(target.options, out=tmp_path), target.prompts, cells)
    assert set(again.traces) == set(recordings.traces)
