"""What does decoding prompts by a configuration take in rooftree's own loops, once?

Reading the prompt is left out of the times. Leaves out rounds and their log
(`real_runs.validation.bench`) and what is predicted (`real_runs.validation.walk`, `loop_costs`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.decoding.batch_generate import generate_batch
from real_runs.decoding.batch_speculative import speculate_batch
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun, speculate
from real_runs.decoding.times import now
from real_runs.decoding.tree_speculative import speculate_tree
from real_runs.drafters.drafter import Form, LoopDrafter, form_of
from real_runs.drafters.prompt_lookup import PromptLookup
from real_runs.drafters.registry import loop_drafter
from real_runs.drafters.suffix_automaton import SuffixAutomaton
from real_runs.drafters.target import Target
from real_runs.validation.configurations import Configuration
from real_runs.validation.own_loop.timed_model import TimedDraft, TimedModel

_PROBE_CONTEXT, _PROBES = 128, 3
_WARM_TOKENS = 4


class LoopDecoder:
    """A target, its drafters and prompts, ready to run configurations.

    Args:
        target: model, tokenizer, options and prompts.
        max_new_tokens: length limit of every answer.
    """

    def __init__(self, target: Target, *, max_new_tokens: int) -> None:
        self.target, self.max_new_tokens = target, max_new_tokens
        self.model = TimedModel(target.model)
        self._drafters: dict[str, LoopDrafter] = {}
        self._probe = target.model.new_cache(_PROBE_CONTEXT + 1)
        self._probe.keys.normal_()
        self._probe.values.normal_()

    def probes(self) -> list[float]:
        """Seconds of the same small pass, a few times."""
        seconds = []
        for _ in range(_PROBES):
            began = now(self.model.device)[0]
            self.target.model.forward([0], self._probe, start=_PROBE_CONTEXT)
            seconds.append(now(self.model.device)[0] - began)
        return seconds

    def warm(self, configuration: Configuration, prompts: Sequence[str]) -> None:
        """Decode a few tokens: code paths that run for the first time are in no run."""
        self.run(configuration, prompts, limit=_WARM_TOKENS)

    @cached_property
    def ids(self) -> dict[str, list[int]]:
        """Token ids by prompt."""
        return {
            prompt.id: self.target.tokenizer.chat_ids(prompt.text)
            for prompt in self.target.prompts.prompts
        }

    def run(
        self, configuration: Configuration, prompts: Sequence[str], *, limit: int | None = None
    ) -> dict[str, Any]:
        """Decode prompts once, together where there are several; JSON values of `Run` but for its
        place.
        """
        ids = [self.ids[prompt] for prompt in prompts]
        limit = limit or self.max_new_tokens
        samplers = [
            Sampler(temperature=0.0, seed=0, request=prompt, positions=1) for prompt in prompts
        ]
        self.model.begin()
        decoded, draft = self._decoded(configuration, ids, samplers, limit)
        wall, cpu = self.model.since_prefill()
        outputs = [tokens for tokens, _ in decoded]
        passes = self.model.passes
        drafted = [run.drafted for _, run in decoded if run is not None]
        return {
            "tokens": sum(map(len, outputs)) - len(outputs),
            "steps": len(passes),
            "request_steps": sum(timed_pass.requests for timed_pass in passes),
            "drafted_tokens": sum(map(sum, drafted)),
            "decode_s": wall - (draft.prompt_s if draft else 0.0),
            "cpu_s": cpu - (draft.prompt_cpu_s if draft else 0.0),
            "draft_s": draft.seconds if draft else 0.0,
            "verify_s": sum(timed_pass.wall_s for timed_pass in passes),
            "passes": [[*timed_pass[:3], round(timed_pass.wall_s, 7)] for timed_pass in passes],
            "output_sha256": hashlib.sha256(repr(outputs).encode()).hexdigest(),
            "prefill_s": self.model.prefill_s,
        }

    def _decoded(
        self,
        configuration: Configuration,
        ids: list[list[int]],
        samplers: list[Sampler],
        limit: int,
    ) -> tuple[list[tuple[list[int], SpeculativeRun | None]], TimedDraft | None]:
        """Output tokens and runs of every request, and the drafter's clock."""
        single = len(ids) == 1
        if not configuration.drafter:
            plain = (
                [generate(self.model, ids[0], samplers[0], max_new_tokens=limit)]
                if single
                else generate_batch(self.model, ids, samplers, max_new_tokens=limit)
            )
            return [(list(generated.tokens), None) for generated in plain], None
        draft = TimedDraft(self._proposer(configuration, ids), self.model.device)
        if not single:
            runs = speculate_batch(
                self.model, ids, draft, samplers, tree=configuration.shape, max_new_tokens=limit
            )
        elif configuration.tree is not None:
            tree = configuration.tree
            runs = [
                speculate_tree(
                    self.model, ids[0], draft, samplers[0], tree=tree, max_new_tokens=limit
                )
            ]
        else:
            most = configuration.draft_tokens
            runs = [
                speculate(
                    self.model, ids[0], draft, samplers[0], draft_tokens=most, max_new_tokens=limit
                )
            ]
        return [(list(run.tokens), run) for run in runs], draft

    def _proposer(self, configuration: Configuration, ids: list[list[int]]) -> Callable[..., Any]:
        """A fresh drafter; text indexes have read the prompt, which is part of the prefill."""
        name = configuration.drafter
        source = self._drafters.get(name) or loop_drafter(name, self.target)
        self._drafters[name] = source
        if len(ids) > 1:
            if source.batch is None:
                raise InputError("decodes one request at a time", key="drafter", value=name)
            return source.batch(ids)
        form: Form = "chain" if configuration.tree is None else "tree"
        proposer: Callable[..., Any] = form_of(source, form, key="drafter", name=name)()
        if isinstance(proposer, PromptLookup | SuffixAutomaton):
            proposer.extend(ids[0])
        return proposer
