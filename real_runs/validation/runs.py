"""How long do configurations really take, beside each other, round after round?

Every configuration of a cell runs on the cell's prompts in turn, the order going round, several
rounds; a run is on disk the moment it is over, and an interrupted validation goes on after it.
Reading the prompt is left out of the times. Leaves out which rounds count (`rounds`) and what is
predicted (`walk`, `loop_costs`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Protocol, TypeVar

from hardware_profiles.errors import InputError
from real_runs.decoding.batch_generate import generate_batch
from real_runs.decoding.batch_speculative import BatchEarlyExit, per_request, speculate_batch
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun, speculate
from real_runs.decoding.tree_speculative import speculate_tree
from real_runs.drafters.early_exit import EarlyExit
from real_runs.drafters.prompt_lookup import PromptLookup
from real_runs.drafters.suffix_automaton import SuffixAutomaton
from real_runs.recording.drafter_registry import LoopDrafter, Target, drafter
from real_runs.recording.log import RecordingLog
from real_runs.validation.cells import ValidationCell
from real_runs.validation.configurations import PLAIN, Configuration, NamedConfiguration, Some
from real_runs.validation.timed_model import TimedDraft, TimedModel, now

Ran_contra = TypeVar("Ran_contra", bound=NamedConfiguration, contravariant=True)
_PROBE_CONTEXT, _PROBES = 128, 3
_WARM_TOKENS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One configuration on the prompts of one group, once.

    Attributes:
        cell: name of the cell.
        configuration: name.
        round: 0, 1, ...
        prompts: ids, several where they ran together.
        tokens: output tokens of all requests, the first ones (of the prefill) left out.
        steps: passes of the target after the prefill.
        request_steps: steps of all requests together: a pass counts once for every request in it.
        drafted_tokens: of all requests.
        decode_s: wall seconds after the prefill.
        cpu_s: process seconds after the prefill.
        draft_s: wall seconds of drafting.
        verify_s: wall seconds of the target's passes.
        passes: requests, query tokens, longest context and seconds of every pass.
        output_sha256: digest of the output ids.
        prefill_s: of reading the prompts, where this run did; else 0.
        probe_s: the median of one and the same plain pass, timed several times before and after the
            run.
        rounds: runs of the same work that this one stands for.
        ttft_s: from sending a request to its first token, the mean over requests; 0 where nothing
            was sent.
        tpot_s: of a request per output token after the first, the mean over requests; 0 where
            nothing was sent.
        prompt_tokens: of a request, as a server counted them, the mean over requests; 0 where
            nothing was sent.
        counted: steps and draft tokens of every request, as a server counted them; () where nothing
            was sent.
    """

    cell: str
    configuration: str
    round: int
    prompts: tuple[str, ...]
    tokens: int
    steps: int
    request_steps: int
    drafted_tokens: int
    decode_s: float
    cpu_s: float
    draft_s: float
    verify_s: float
    passes: tuple[tuple[int, int, int, float], ...]
    output_sha256: str
    prefill_s: float = 0.0
    probe_s: float = 0.0
    rounds: int = 1
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    prompt_tokens: float = 0.0
    counted: tuple[tuple[int, int], ...] = ()

    @property
    def rest_s(self) -> float:
        """Seconds of all else: comparing, moving cache slots, stopping."""
        return max(self.decode_s - self.draft_s - self.verify_s, 0.0)

    @property
    def process_share(self) -> float:
        """Process time over wall time."""
        return self.cpu_s / self.decode_s

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Run:
        """A line of the log."""
        values = dict(entry)
        values["prompts"] = tuple(values["prompts"])
        values["counted"] = tuple(
            (int(steps), int(drafted)) for steps, drafted in values.get("counted", ())
        )
        values["passes"] = tuple(
            (int(b), int(n), int(c), float(s)) for b, n, c, s in values["passes"]
        )
        return cls(**values)


class Runs(Protocol[Ran_contra]):
    """What can be run beside a probe of the machine."""

    def probes(self) -> list[float]:
        """Seconds of the same small pass, a few times."""

    def run(
        self, configuration: Ran_contra, prompts: Sequence[str], *, limit: int | None = None
    ) -> dict[str, Any]:
        """Decode prompts once; JSON values of `Run` but for its place."""


class Bench:
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
        made, draft = self._decoded(configuration, ids, samplers, limit)
        wall, cpu = self.model.since_prefill()
        outputs = [tokens for tokens, _ in made]
        passes = self.model.passes
        drafted = [run.drafted for _, run in made if run is not None]
        return {
            "configuration": configuration.name,
            "prompts": list(prompts),
            "tokens": sum(map(len, outputs)) - len(outputs),
            "steps": len(passes),
            "request_steps": sum(timed_pass.requests for timed_pass in passes),
            "drafted_tokens": sum(map(sum, drafted)),
            "decode_s": wall - (draft.prompt_s if draft else 0.0),
            "cpu_s": cpu - (draft.prompt_cpu_s if draft else 0.0),
            "draft_s": draft.seconds if draft else 0.0,
            "verify_s": sum(timed_pass.wall_s for timed_pass in passes),
            "passes": [[p.requests, p.query_tokens, p.context, round(p.wall_s, 7)] for p in passes],
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
            learns = configuration.drafter == "token-recycling"
            runs = [
                speculate_tree(
                    self.model,
                    ids[0],
                    draft,
                    samplers[0],
                    tree=configuration.tree,
                    max_new_tokens=limit,
                    learn=draft.learn if learns else None,
                )
            ]
        else:
            runs = [
                speculate(
                    self.model,
                    ids[0],
                    draft,
                    samplers[0],
                    draft_tokens=configuration.draft_tokens,
                    max_new_tokens=limit,
                )
            ]
        return [(list(run.tokens), run) for run in runs], draft

    def _proposer(self, configuration: Configuration, ids: list[list[int]]) -> Callable[..., Any]:
        """A fresh drafter; text indexes have read the prompt, which is part of the prefill."""
        name = configuration.drafter
        source = self._drafters.setdefault(name, drafter(name, self.target))
        if configuration.tree is not None and len(ids) == 1:
            if source.tree is None:
                raise InputError("drafts chains alone", key="drafter", value=name)
            return source.tree()
        if source.chain is None:
            raise InputError("drafts trees alone", key="drafter", value=name)
        made = [source.chain() for _ in ids]
        if isinstance(made[0], EarlyExit) and len(ids) > 1:
            return BatchEarlyExit(self.target.model, made[0]._bridge)
        for proposer, prompt in zip(made, ids, strict=True):
            if isinstance(proposer, PromptLookup | SuffixAutomaton):
                proposer.extend(prompt)
        return made[0] if len(ids) == 1 else per_request(made)


def make_runs(
    bench: Runs[Some],
    plan: Sequence[tuple[ValidationCell, Sequence[Some]]],
    log: RecordingLog,
    *,
    rounds: int,
    deadline: float,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> int:
    """Make every run that the log does not hold yet, until the deadline; how many are still
    missing.

    Args:
        bench: model, drafters and prompts.
        plan: cells with their configurations.
        log: where finished runs are kept.
        rounds: times that everything is run.
        deadline: `time.monotonic()` at which to end; no run is begun that would take longer than
            its like did.
        should_stop: asked between runs.
        progress: called with how many runs there are of how many.
    """
    finished = {
        _key(entry["cell"], entry["configuration"], entry["prompts"], entry["round"])
        for entry in log.finished
    }
    wanted = [
        (cell, configuration, group, turn)
        for turn in range(rounds)
        for cell, configurations in plan
        for place, group in enumerate(cell.groups)
        for configuration in _rotated(configurations, turn + place)
    ]
    missing = [
        one for one in wanted if _key(one[0].name, one[1].name, one[2], one[3]) not in finished
    ]
    took: dict[tuple[str, int], float] = {}
    warm: set[tuple[str, str]] = set()
    for done, (cell, configuration, group, turn) in enumerate(missing):
        expected = took.get((cell.name, cell.batch), 0.0)
        if should_stop() or time.monotonic() + expected > deadline:
            return len(missing) - done
        if (
            cell.name,
            configuration.name,
        ) not in warm:  # code paths that run for the first time are in no run
            warm.add((cell.name, configuration.name))
            bench.run(configuration, group, limit=_WARM_TOKENS)
        began = time.monotonic()
        probes = bench.probes()
        made = bench.run(configuration, group)
        made["probe_s"] = median([*probes, *bench.probes()])
        took[cell.name, cell.batch] = max(
            took.get((cell.name, cell.batch), 0.0), time.monotonic() - began
        )
        log.append({**made, "cell": cell.name, "round": turn})
        progress(
            len(wanted) - len(missing) + done + 1, len(wanted), f"{cell.name}: {configuration.name}"
        )
    return 0


def _rotated(configurations: Sequence[Some], by: int) -> list[Some]:
    start = by % len(configurations)
    return [*configurations[start:], *configurations[:start]]


def _key(cell: str, configuration: str, prompts: Sequence[str], turn: int) -> tuple[Any, ...]:
    return cell, configuration, tuple(prompts), turn


__all__ = ["PLAIN", "Bench", "Run", "make_runs"]
