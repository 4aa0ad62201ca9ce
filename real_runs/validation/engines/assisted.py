"""How much faster does Transformers get with a generation config that was exported for it, and what
was predicted?

Transformers' own loops run our weights, plainly and with prompt lookup as the config says,
interleaved on prompts of two kinds. Steps are predicted by walking the plain text with its rule of
lookup (the first match of the longest n-gram), their times by the cost model with loop costs fitted
on other prompts and another draft length. Times are after the first pass, which reads the prompt.
Leaves out writing the config (`app.exporters`) and draft models.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch

from costmodel.passes.deployment import Deployment
from hardware_profiles.errors import InputError
from real_runs.validation.configurations import Configuration, chain
from real_runs.validation.loop_costs import Example, fit_costs
from real_runs.validation.predict import DraftLayers, predicted_run
from real_runs.validation.rounds import pooled, steadied, undisturbed
from real_runs.validation.runs import Run
from real_runs.validation.walk import Walk

FITTED_DRAFT_TOKENS = 3
_PROBES = 3
_NO_LAYERS = DraftLayers(exit_layer=1, skipped=1)
_LOOKUP_KEYS = {"prompt_lookup_num_tokens", "max_matching_ngram_size"}
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class AssistedPoint:
    """One kind of prompts: lookup against plain decoding in Transformers.

    Attributes:
        kind: of the prompts.
        prompts: how many.
        draft_tokens: K of the exported config.
        tokens_per_step: measured, after the first pass.
        predicted_tokens_per_step: from the walk.
        plain_tokens_per_s: measured.
        tokens_per_s: measured with lookup.
        predicted_tokens_per_s: with lookup.
        speedup: measured.
        predicted_speedup: from the predicted times of both.
        error_ratio: predicted / measured speedup - 1.
    """

    kind: str
    prompts: int
    draft_tokens: int
    tokens_per_step: float
    predicted_tokens_per_step: float
    plain_tokens_per_s: float
    tokens_per_s: float
    predicted_tokens_per_s: float
    speedup: float
    predicted_speedup: float
    error_ratio: float


class TimedTransformers:
    """Transformers' model whose passes after the first are timed.

    Args:
        model: as `transformers_model` makes it.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._forward = model, model.forward
        self._passes: list[tuple[int, int, int, float]] = []
        self._first: tuple[float, float] | None = None
        model.forward = self._timed
        self.usual_s = median(self.probes() + self.probes())

    def probes(self) -> list[float]:
        """Seconds of the same small pass, a few times: they tell how disturbed the machine is."""
        token, seconds = torch.zeros((1, 1), dtype=torch.long), []
        with torch.inference_mode():
            for _ in range(_PROBES):
                began = time.perf_counter()
                self._forward(input_ids=token, use_cache=False)
                seconds.append(time.perf_counter() - began)
        return seconds

    def generate(
        self, ids: Sequence[int], tokens: int, config: Mapping[str, Any]
    ) -> tuple[list[int], dict[str, Any]]:
        """Greedy output of exactly `tokens` tokens, and times as `Run` has them."""
        self._passes, self._first = [], None
        prompt = torch.tensor([list(ids)])
        options = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0, **config}
        with torch.inference_mode():
            made = self._model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)[
                0
            ].tolist()
        wall, cpu = time.perf_counter(), time.process_time()
        assert self._first is not None
        output = [int(token) for token in made[len(ids) :]]
        return output, {
            "steps": len(self._passes),
            "request_steps": len(self._passes),
            "decode_s": wall - self._first[0],
            "cpu_s": cpu - self._first[1],
            "draft_s": 0.0,
            "verify_s": sum(timed_pass[3] for timed_pass in self._passes),
            "passes": tuple(self._passes),
        }

    def _timed(self, *args: Any, **options: Any) -> Any:
        ids = options["input_ids"] if "input_ids" in options else args[0]
        cache = options.get("past_key_values")
        context = int(cache.get_seq_length()) if cache is not None else 0
        began = time.perf_counter()
        made = self._forward(*args, **options)
        if self._first is None:
            self._first = time.perf_counter(), time.process_time()
        else:
            self._passes.append((1, int(ids.shape[1]), context, time.perf_counter() - began))
        return made


def lookup_walk(
    prompt: Sequence[int], output: Sequence[int], draft_tokens: int, ngram: int
) -> Walk:
    """The steps of Transformers' prompt lookup on a known text; the first pass, which reads the
    prompt, is left out.

    Args:
        prompt: its ids.
        output: what plain greedy decoding writes; all of it is decoded, no token ends it.
        draft_tokens: K.
        ngram: longest n-gram that is looked up.
    """
    known, longest = list(prompt), len(prompt) + len(output)
    columns: dict[str, list[int]] = {"n": [], "context": [], "drafted": []}
    emitted_after_first, first = 0, True
    while len(known) < longest:
        drafts = _first_match(known, draft_tokens, ngram, longest)
        right = output[len(known) - len(prompt) :]
        hits = 0
        while hits < min(len(drafts), len(right)) and drafts[hits] == right[hits]:
            hits += 1
        emitted = min(hits + 1, len(right))
        if not first:
            columns["n"].append(1 + len(drafts))
            columns["context"].append(len(known) - 1)
            columns["drafted"].append(len(drafts))
            emitted_after_first += emitted
        first = False
        known += right[:emitted]
    arrays = {name: np.array(values, dtype=np.int64) for name, values in columns.items()}
    ones = np.ones(len(arrays["n"]), dtype=np.int64)
    return Walk(
        requests=ones,
        query_tokens=arrays["n"],
        context=arrays["context"],
        drafted=arrays["drafted"],
        drafting=(arrays["drafted"] > 0).astype(np.int64),
        unread=ones,
        tokens=emitted_after_first,
    )


def _first_match(
    known: Sequence[int], draft_tokens: int, ngram: int, longest: int
) -> Sequence[int]:
    if longest == len(known) + 1:
        return []
    for size in range(min(ngram, len(known) - 1), 0, -1):
        tail = list(known[-size:])
        for start in range(len(known) - size):
            if list(known[start : start + size]) == tail:
                return known[start + size : min(start + size + draft_tokens, len(known), longest)]
    return []


def validate_assisted(
    model: Any,
    prompts: Mapping[str, Sequence[Sequence[int]]],
    fitted: Sequence[Sequence[int]],
    deployment: Deployment,
    config: Mapping[str, Any],
    *,
    new_tokens: int = 48,
    rounds: int = 3,
    keep_disturbed: bool = False,
    tell: Tell = lambda text: None,
) -> list[AssistedPoint]:
    """Run and predict.

    Args:
        model: Transformers' model.
        prompts: ids by kind.
        fitted: ids of prompts that loop costs are fitted on; none of them may be among `prompts`.
        deployment: target, device and fidelity of the predictions.
        config: the exported generation config of the target: prompt lookup and its n-gram size.
        new_tokens: of every answer.
        rounds: times that everything is run.
        keep_disturbed: count runs that other processes disturbed.
        tell: called with what is under way.

    Raises:
        InputError: a config that asks for anything but prompt lookup, its draft length that of the
            fit, or no undisturbed run.
    """
    if set(config) != _LOOKUP_KEYS:
        raise InputError(
            "must be a config of prompt lookup", key="generation_config", value=sorted(config)
        )
    k, ngram = int(config["prompt_lookup_num_tokens"]), int(config["max_matching_ngram_size"])
    if k == FITTED_DRAFT_TOKENS:
        raise InputError(
            "is what loop costs are fitted on, and not scored", key="draft_tokens", value=k
        )
    timed = TimedTransformers(model)
    for warm in ({}, config):  # what runs for the first time is in no run
        timed.generate(fitted[0], 4, warm)
    examples = []
    for prompt in fitted:
        tell("Transformers, to fit on")
        examples += _examples(timed, prompt, ngram, new_tokens, rounds, keep_disturbed)
    if not examples:
        raise InputError("no undisturbed run to fit on; quiet the machine", key="engine")
    costs = fit_costs(deployment, _NO_LAYERS, examples)
    points = []
    for kind, texts in prompts.items():
        totals: dict[str, float] = defaultdict(float)
        for prompt in texts:
            tell(f"Transformers, {kind}")
            output, (plain_runs, lookup_runs) = _timed_runs(
                timed, kind, prompt, new_tokens, ({}, config), rounds, keep_disturbed
            )
            if not plain_runs or not lookup_runs:
                raise InputError("no undisturbed run; quiet the machine", key=kind)
            walks = (lookup_walk(prompt, output, 0, ngram), lookup_walk(prompt, output, k, ngram))
            reported = [
                predicted_run(deployment, _NO_LAYERS, costs, configuration, steps, 1)
                for configuration, steps in zip(
                    (Configuration(), chain("prompt-lookup", k)), walks, strict=True
                )
            ]
            totals["plain"] += plain_runs[0].decode_s
            totals["lookup"] += lookup_runs[0].decode_s
            totals["plain predicted"] += reported[0].decode_s
            totals["lookup predicted"] += reported[1].decode_s
            totals["tokens"] += walks[0].tokens
            totals["lookup tokens"] += lookup_runs[0].tokens
            totals["predicted tokens"] += walks[1].tokens
            totals["steps"] += lookup_runs[0].steps
            totals["predicted steps"] += walks[1].steps
        points.append(_point(kind, len(texts), k, totals))
    return points


def _examples(
    timed: TimedTransformers,
    prompt: Sequence[int],
    ngram: int,
    tokens: int,
    rounds: int,
    keep_disturbed: bool,
) -> list[Example]:
    """Runs of one prompt to fit on, plain and at the fitted draft length."""
    k = FITTED_DRAFT_TOKENS
    config = dict(
        zip(("prompt_lookup_num_tokens", "max_matching_ngram_size"), (k, ngram), strict=True)
    )
    output, runs = _timed_runs(timed, "fit", prompt, tokens, ({}, config), rounds, keep_disturbed)
    return [
        Example(
            configuration=configuration,
            batch=1,
            context=len(prompt),
            run=run,
            steps=lookup_walk(prompt, output, drafts, ngram),
        )
        for configuration, drafts, made in zip(
            (Configuration(), chain("prompt-lookup", k)), (0, k), runs, strict=True
        )
        for run in made
    ]


def _point(kind: str, prompts: int, k: int, t: Mapping[str, float]) -> AssistedPoint:
    plain, lookup = t["tokens"] / t["plain"], t["lookup tokens"] / t["lookup"]
    predicted_plain, predicted = (
        t["tokens"] / t["plain predicted"],
        t["predicted tokens"] / t["lookup predicted"],
    )
    return AssistedPoint(
        kind=kind,
        prompts=prompts,
        draft_tokens=k,
        tokens_per_step=t["lookup tokens"] / max(t["steps"], 1.0),
        predicted_tokens_per_step=t["predicted tokens"] / max(t["predicted steps"], 1.0),
        plain_tokens_per_s=plain,
        tokens_per_s=lookup,
        predicted_tokens_per_s=predicted,
        speedup=lookup / plain,
        predicted_speedup=predicted / predicted_plain,
        error_ratio=(predicted / predicted_plain) / (lookup / plain) - 1.0,
    )


def _timed_runs(
    timed: TimedTransformers,
    kind: str,
    prompt: Sequence[int],
    tokens: int,
    configs: Sequence[Mapping[str, Any]],
    rounds: int,
    keep_disturbed: bool,
) -> tuple[list[int], list[list[Run]]]:
    """The output, and of each config its undisturbed runs as one, if there are any."""
    runs: list[list[Run]] = [[] for _ in configs]
    output: list[int] = []
    for turn in range(rounds):
        for config, own in zip(configs, runs, strict=True):
            probes = timed.probes()
            output, times = timed.generate(prompt, tokens, config)
            times["probe_s"] = median([*probes, *timed.probes()])
            after_first = len(output) - (_first_emitted(prompt, output, config) if config else 1)
            own.append(
                Run(
                    cell=kind,
                    configuration=str(sorted(config.items())),
                    round=turn,
                    prompts=(str(len(prompt)),),
                    tokens=after_first,
                    drafted_tokens=0,
                    output_sha256="",
                    **times,
                )
            )
    if keep_disturbed:
        return output, [pooled(own) for own in runs]
    return output, [pooled(steadied(undisturbed(own), usual_s=timed.usual_s)) for own in runs]


def _first_emitted(prompt: Sequence[int], output: Sequence[int], config: Mapping[str, Any]) -> int:
    """Tokens that the pass over the prompt emitted: its drafts are verified with it."""
    walk = lookup_walk(
        prompt,
        output,
        int(config["prompt_lookup_num_tokens"]),
        int(config["max_matching_ngram_size"]),
    )
    return len(output) - walk.tokens
