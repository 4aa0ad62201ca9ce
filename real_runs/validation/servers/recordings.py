"""What does a server write after every prompt, and what would drafters have proposed there?

One plain server answers each prompt once, greedily: drafters are replayed on the answers, the
caches of prompts are kept for later servers, and the time to the first token says what a prompt
takes. None of these runs is scored as decoding. Leaves out which prompts there are (`plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hardware_profiles.errors import InputError
from real_runs.recording.log import RecordingLog
from real_runs.servers.asking import FailedRunError, slot_options
from real_runs.servers.identify import Server
from real_runs.servers.llama_cpp.answers import Answers, ServerAnswer, whole_completion
from real_runs.servers.llama_cpp.recording import lookup_trace
from real_runs.validation.servers.configurations import NGRAM, ServerConfiguration
from real_runs.validation.servers.slots import compute
from real_runs.validation.servers.steps import (
    MeasuredSteps,
    counted_path,
    drawn_path,
    group_steps,
    recorded_path,
)
from traces.kinds.acceptance import AcceptanceTrace

DRAWS = 64
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class KnownPrompts:
    """What is known of prompts before anything is scored.

    Attributes:
        answers: of the plain server, greedy.
        prompt_s: by prompt, from sending it to the first token, nothing of it being cached.
        draft: where a draft model's likeliest token is the next one; None where there is none.
    """

    answers: Answers
    prompt_s: Mapping[str, float]
    draft: AcceptanceTrace | None = None

    @property
    def prompts(self) -> dict[str, tuple[int, ...]]:
        """Token ids by name."""
        return {answer.request: answer.prompt for answer in self.answers.requests}

    def of(self, names: Sequence[str]) -> Answers:
        """The answers to some prompts, in their order."""
        by_name = {answer.request: answer for answer in self.answers.requests}
        return replace(self.answers, requests=tuple(by_name[name] for name in names))

    def drafts(self, served: ServerConfiguration, names: Sequence[str]) -> AcceptanceTrace:
        """What a configuration's drafter would propose on the answers to some prompts, and what of
        it stands.
        """
        if served.chosen.method != NGRAM and served.chosen.speculates:
            assert self.draft is not None
            return self.draft.select(
                np.array([self.draft.request_ids.index(name) for name in names])
            )
        return lookup_trace(
            self.of(names), size_n=served.chosen.ngram_max, size_m=max(served.draft_tokens, 1)
        )

    def steps(
        self,
        served: ServerConfiguration,
        names: Sequence[str],
        *,
        seed: int,
        counted: Sequence[tuple[int, int]] = (),
    ) -> list[MeasuredSteps]:
        """The steps that prompts sent together should take: one list entry, or several draws where
        rates are stated.

        Args:
            served: the configuration.
            names: of prompts, in the order of their slots.
            seed: of the draws.
            counted: steps and draft tokens of every request where a server drew; () draws several
                times.
        """
        by_model = served.chosen.speculates and served.chosen.method != NGRAM
        if not served.synthetic:
            trace = self.drafts(served, names)
            paths = [
                recorded_path(trace, place, served.draft_tokens) for place in range(len(names))
            ]
            return [group_steps(paths, draft_model=by_model)]
        rates, generator = served.chosen.acceptance_by_depth or (), np.random.default_rng(seed)
        most, prompts = self.answers.setup["max_new_tokens"], self.prompts
        if counted:
            own = zip(names, counted, strict=True)
            paths = [
                counted_path(rates, len(prompts[name]), most, prompt_rates, generator)
                for name, prompt_rates in own
            ]
            return [group_steps(paths, draft_model=by_model)]
        return [
            group_steps(
                [drawn_path(rates, len(prompts[name]), most, generator) for name in names],
                draft_model=by_model,
            )
            for _ in range(DRAWS)
        ]


def record_prompts(
    server: Server,
    prompts: Mapping[str, tuple[int, ...]],
    log: RecordingLog,
    folder: Path,
    *,
    max_new_tokens: int,
    model: str,
    tell: Tell = lambda text: None,
) -> KnownPrompts:
    """Answer every prompt that the log does not hold.

    Args:
        server: decodes plainly, in one slot.
        prompts: token ids by name.
        log: of what is finished.
        folder: where the server keeps caches of prompts.
        max_new_tokens: of an answer.
        model: what the target is called.
        tell: called with what is under way.

    Raises:
        FailedRunError: the server did not answer whole.
    """
    answered = {entry["name"]: entry for entry in log.finished}
    for done, (name, prompt) in enumerate(prompts.items(), start=1):
        if name in answered:
            continue
        tell(f"answering prompt {done} of {len(prompts)}, {len(prompt)} tokens")
        prompt_s = compute(server, 0, prompt, folder)
        output = _answer(server, prompt, max_new_tokens)
        entry = {"name": name, "output": list(output), "prompt_s": prompt_s}
        log.append(entry)
        answered[name] = entry
    setup = {
        "max_new_tokens": max_new_tokens,
        "context": None,
        "model_file": model,
        "dtype": "",
        "dataset": "",
        "dataset_sha256": "",
        "recorder": "",
        "build": "",
        "ignore_eos": True,
    }
    requests = tuple(
        ServerAnswer(
            request=name,
            kind="",
            prompt=prompt,
            output=tuple(answered[name]["output"]),
            ended="length",
            drafted=0,
            accepted=0,
        )
        for name, prompt in prompts.items()
    )
    return KnownPrompts(
        answers=Answers(setup=setup, requests=requests),
        prompt_s={name: float(answered[name]["prompt_s"]) for name in prompts},
    )


def _answer(server: Server, prompt: Sequence[int], max_new_tokens: int) -> tuple[int, ...]:
    """All tokens of an answer, which a stream does not hold where characters take several."""
    options = {"ignore_eos": True, **slot_options(server, 0)}
    try:
        output, _ = whole_completion(
            server.address, prompt, max_tokens=max_new_tokens, options=options
        )
    except InputError as error:
        raise FailedRunError(error.message, key=str(server.address)) from None
    if len(output) != max_new_tokens:
        rule = f"answers with {len(output)} tokens where {max_new_tokens} were asked for"
        raise FailedRunError(rule, key=str(server.address))
    return output
