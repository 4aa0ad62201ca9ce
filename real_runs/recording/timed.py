"""How long do the steps of real loops take that decode the recorded texts again?

Plain decoding and every drafter with a loop, by chains and trees, one request at a time and, where
the drafter can, several together: round after round, a run kept the moment it is finished. A run
that leaves the recorded text, as rounding in another order may make it do, counts up to there.
Leaves out the recording itself (`recorder`) and what steps should take (`real_runs.validation`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from real_runs.decoding.batch_speculative import speculate_batch
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun, speculate
from real_runs.decoding.tree_speculative import speculate_tree
from real_runs.drafters.drafter import LoopDrafter, RecordedDrafter
from real_runs.drafters.registry import load_drafter, loop_drafter
from real_runs.drafters.target import Target
from real_runs.drafters.token_recycling import CANDIDATES, default_tree
from real_runs.prompt_set import Prompt, PromptSet
from real_runs.recording.arrays import decoded, encoded
from real_runs.recording.log import RecordingLog
from real_runs.recording.options import RecordOptions, StepTiming
from traces.kinds.timed_steps import COUNTS, SECONDS, TimedSteps
from traces.kinds.tree import Tree, chain_tree

PLAIN = ""
TIMED = "timed"  # key of runs among the entries of a log; it holds the drafter's name
TREE_LEVELS = 6
_WARM_TOKENS = 4
_PLAIN_LOOP = LoopDrafter(
    chain=lambda: lambda prefix, cache, most: [],
    batch=lambda prompts: lambda requests, prefixes, cache, tree: [[] for _ in requests],
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedRun:
    """One run of a loop: which requests decode together, how, and in which round.

    Attributes:
        drafter: name in the registry; "" for plain decoding.
        temperature: sampling mode.
        shape: of every step.
        group: number of the run among those of its shape and batch.
        prompts: that decode together.
        round: from 0.
    """

    drafter: str
    temperature: float
    shape: Tree
    group: int
    prompts: tuple[Prompt, ...]
    round: int

    @property
    def entry(self) -> dict[str, Any]:
        """Its place, as the log holds it."""
        return {
            TIMED: self.drafter,
            "temperature": self.temperature,
            "shape": self.shape.to_json(),
            "group": self.group,
            "requests": [prompt.id for prompt in self.prompts],
            "round": self.round,
        }


def timed_shapes(drafter: RecordedDrafter, loop: LoopDrafter, timing: StepTiming) -> list[Tree]:
    """The shapes by which a drafter's loop is timed: those that its recording can be replayed by.

    Args:
        drafter: as it is recorded.
        loop: as it decodes.
        timing: chains and trees that are wanted.
    """
    if drafter.policy_tree is not None:
        return [drafter.policy_tree]
    shapes = [chain_tree(count) for count in timing.chains] if loop.chain else []
    if loop.tree is not None and load_drafter(drafter.name).records != "lengths":
        shapes += [
            default_tree(nodes=nodes, levels=min(TREE_LEVELS, nodes), candidates=CANDIDATES)
            for nodes in timing.tree_nodes
        ]
    if drafter.trace_fields.get("depth_invariant", True):
        return shapes
    return [shape for shape in shapes if shape.depth - 1 <= drafter.parameters["draft_depth"]]


def time_loops(
    target: Target,
    options: RecordOptions,
    drafters: Sequence[RecordedDrafter],
    log: RecordingLog,
    sampler: Callable[[Prompt, float], Sampler],
) -> None:
    """Make every run that the log does not hold yet; reports the stage "time".

    Args:
        target: the model and its prompts.
        options: with the timing that is wanted.
        drafters: as they are recorded.
        log: of a recording whose requests are all finished.
        sampler: of a request at a temperature.
    """
    assert options.timing is not None
    loops = {PLAIN: _PLAIN_LOOP}
    shapes = {PLAIN: [chain_tree(0)]}
    for drafter in drafters:
        if load_drafter(drafter.name).propose is not None:
            loops[drafter.name] = loop_drafter(drafter.name, target)
            shapes[drafter.name] = timed_shapes(drafter, loops[drafter.name], options.timing)
    texts = _texts(log)
    finished = {_key(entry) for entry in log.finished if TIMED in entry}
    runs = list(_runs(options, target.prompts, loops, shapes))
    warm: set[tuple[str, Tree, int]] = set()
    for done, run in enumerate(runs, start=1):
        if _key(run.entry) not in finished:
            decode = _decoder(target, options, loops[run.drafter], run, sampler)
            kind = (run.drafter, run.shape, len(run.prompts))
            if kind not in warm:  # what runs for the first time is in no run
                warm.add(kind)
                decode(min(_WARM_TOKENS, options.max_new_tokens))
            log.append({**run.entry, **_agreeing_steps(run, decode(options.max_new_tokens), texts)})
        target.report("time", done, len(runs), f"{run.drafter or 'plain'} {run.prompts[0].id}")


def _runs(
    options: RecordOptions,
    prompts: PromptSet,
    loops: Mapping[str, LoopDrafter],
    shapes: Mapping[str, Sequence[Tree]],
) -> Iterator[TimedRun]:
    """Every run, round by round: what disturbs a machine for a while meets one round."""
    timing = options.timing
    assert timing is not None
    if timing.prompts_per_kind is not None:
        prompts = prompts.first_of_each_kind(timing.prompts_per_kind)
    for turn in range(timing.rounds):
        for temperature in options.temperatures:
            for batch in timing.batches:
                groups = [
                    prompts.prompts[start : start + batch]
                    for start in range(0, len(prompts.prompts) - batch + 1, batch)
                ]
                for place, group in enumerate(groups):
                    for name, loop in loops.items():
                        if batch == 1 or loop.batch is not None:
                            for shape in shapes[name]:
                                yield TimedRun(
                                    drafter=name,
                                    temperature=temperature,
                                    shape=shape,
                                    group=place,
                                    prompts=group,
                                    round=turn,
                                )


def _decoder(
    target: Target,
    options: RecordOptions,
    loop: LoopDrafter,
    run: TimedRun,
    sampler: Callable[[Prompt, float], Sampler],
) -> Callable[[int], list[SpeculativeRun]]:
    """Decodes the requests of a run up to a number of tokens, with a drafter made anew."""
    ids = [target.tokenizer.chat_ids(prompt.text) for prompt in run.prompts]
    samplers = [sampler(prompt, run.temperature) for prompt in run.prompts]
    model, shape = target.model, run.shape

    def decode(most: int) -> list[SpeculativeRun]:
        if len(ids) > 1:
            assert loop.batch is not None
            return speculate_batch(
                model, ids, loop.batch(ids), samplers, tree=shape, max_new_tokens=most, timed=True
            )
        if shape.depth == shape.nodes and loop.chain is not None:
            return [
                speculate(
                    model,
                    ids[0],
                    loop.chain(),
                    samplers[0],
                    draft_tokens=shape.draft_tokens,
                    max_new_tokens=most,
                    timed=True,
                )
            ]
        assert loop.tree is not None
        propose = loop.tree()
        return [
            speculate_tree(
                model,
                ids[0],
                propose,
                samplers[0],
                tree=shape,
                max_new_tokens=most,
                timed=True,
            )
        ]

    return decode


def _texts(log: RecordingLog) -> dict[tuple[str, float, str], list[int]]:
    """Recorded output ids by drafter, temperature and request; those that drafters watched stand
    under the name of plain decoding.
    """
    texts = {}
    for entry in log.finished:
        if TIMED in entry:
            continue
        place = (entry["temperature"], entry["request"])
        texts[PLAIN, *place] = _ids(entry["output_ids"])
        for name, mine in entry["drafters"].items():
            if "output_ids" in mine:
                texts[name, *place] = _ids(mine["output_ids"])
    return texts


def _ids(array: Mapping[str, Any]) -> list[int]:
    ids = decoded(array)
    assert isinstance(ids, np.ndarray)
    return [int(token) for token in ids]


def _agreeing_steps(
    run: TimedRun,
    decoded_runs: Sequence[SpeculativeRun],
    texts: Mapping[tuple[str, float, str], Sequence[int]],
) -> dict[str, Any]:
    """The passes before the first in which a request leaves its recorded text, and how many are
    left out.
    """
    passes = max((len(decoded_run.emitted) for decoded_run in decoded_runs), default=0)
    kept = passes
    for prompt, decoded_run in zip(run.prompts, decoded_runs, strict=True):
        place = (run.temperature, prompt.id)
        text = texts.get((run.drafter, *place)) or texts[PLAIN, *place]
        same = _agreeing(decoded_run.tokens, text)
        ends = [1 + end for end in accumulate(decoded_run.emitted)]
        kept = min([kept, *(step for step, end in enumerate(ends) if end > same)])
    longest = max(decoded_runs, key=lambda decoded_run: len(decoded_run.times))
    seconds = np.array(
        [[times.draft_s, times.verify_s, times.rest_s] for times in longest.times[:kept]],
        dtype=np.float32,
    ).reshape(kept, len(SECONDS))
    return {
        "drafted": [list(decoded_run.drafted[:kept]) for decoded_run in decoded_runs],
        "emitted": [list(decoded_run.emitted[:kept]) for decoded_run in decoded_runs],
        "seconds": encoded(seconds),
        "left_out": passes - kept,
    }


def _agreeing(tokens: Sequence[int], text: Sequence[int]) -> int:
    """How many tokens from the first on are those of a text."""
    differing = (
        place for place, pair in enumerate(zip(tokens, text, strict=False)) if pair[0] != pair[1]
    )
    return next(differing, min(len(tokens), len(text)))


def _key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    shape = entry["shape"]
    return (
        entry[TIMED],
        entry["temperature"],
        tuple(shape["parents"]),
        tuple(shape["ranks"]),
        tuple(entry["requests"]),
        entry["round"],
    )


def timed_steps(
    entries: Sequence[Mapping[str, Any]],
    drafter: RecordedDrafter,
    temperature: float,
    prompts: PromptSet,
    prompt_tokens: Sequence[int],
) -> tuple[TimedSteps | None, dict[str, int]]:
    """The steps of a drafter's loops and of plain decoding, and what was left out.

    Of several rounds the median counts, pass by pass; a round that took other steps than the first
    is left out.

    Args:
        entries: the timed runs of a log.
        drafter: as it is recorded.
        temperature: sampling mode.
        prompts: of the recording, in its order.
        prompt_tokens: of every prompt.

    Returns:
        The steps, None where no loop decodes with the drafter; and counts for the provenance:
        `rounds`, and `left_out_steps` of runs that left the recorded text.
    """
    # a text of the drafter's own is not the one that plain decoding was timed on
    names = {drafter.name} if drafter.decode is not None else {drafter.name, PLAIN}
    mine = [
        entry for entry in entries if entry[TIMED] in names and entry["temperature"] == temperature
    ]
    if not any(entry[TIMED] == drafter.name for entry in mine):
        return None, {}
    rounds: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for entry in mine:
        rounds[_key(entry)[1:-1]].append(entry)
    shapes = list(dict.fromkeys(key[1:3] for key in rounds))
    places = {prompt.id: place for place, prompt in enumerate(prompts.prompts)}
    columns: list[dict[str, list[Any]]] = [
        {name: [] for name in (*COUNTS, *SECONDS)} for _ in places
    ]
    for key, same in sorted(rounds.items(), key=lambda item: (shapes.index(item[0][1:3]), item[0])):
        first = same[0]
        seconds = _median_seconds(same)
        for number, request in enumerate(first["requests"]):
            rows, place = columns[places[request]], places[request]
            emitted = first["emitted"][number][: len(seconds)]
            starts = [1, *(1 + end for end in accumulate(emitted))][: len(emitted)]
            rows["shape"] += [shapes.index(key[1:3])] * len(starts)
            rows["batch"] += [len(first["requests"])] * len(starts)
            rows["group"] += [first["group"]] * len(starts)
            rows["position"] += starts
            rows["context"] += [prompt_tokens[place] + start - 1 for start in starts]
            rows["drafted"] += first["drafted"][number][: len(starts)]
            rows["emitted"] += emitted
            for column, name in enumerate(SECONDS):
                rows[name] += seconds[: len(starts), column].tolist()
    joined: dict[str, Any] = {
        name: np.array([value for rows in columns for value in rows[name]], dtype=dtype)
        for name, dtype in (COUNTS | dict.fromkeys(SECONDS, np.float32)).items()
    }
    steps = TimedSteps(
        offsets=np.cumsum([0, *(len(rows["shape"]) for rows in columns)]),
        shapes=tuple(Tree(parents=parents, ranks=ranks) for parents, ranks in shapes),
        **joined,
    )
    counts = {
        "rounds": max(len(same) for same in rounds.values()),
        "left_out_steps": sum(entry["left_out"] for entry in mine),
    }
    return steps, counts


def _median_seconds(rounds: Sequence[Mapping[str, Any]]) -> NDArray[np.float32]:
    """Seconds by pass and phase, over the rounds that took the steps of the first."""
    passes = min(len(decoded_seconds) for decoded_seconds in map(_seconds, rounds))

    def steps(entry: Mapping[str, Any]) -> list[list[int]]:
        return [list(emitted[:passes]) for emitted in entry["emitted"]]

    alike = [_seconds(entry)[:passes] for entry in rounds if steps(entry) == steps(rounds[0])]
    return np.median(np.stack(alike), axis=0).astype(np.float32)


def _seconds(entry: Mapping[str, Any]) -> NDArray[np.float32]:
    seconds = decoded(entry["seconds"])
    assert isinstance(seconds, np.ndarray)
    return seconds
