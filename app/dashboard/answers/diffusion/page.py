"""How does a masked decoder commit tokens under a policy, and how fast is that against its
autoregressive twin?

A recorded prompt pass by pass, the policy replayed over all prompts, its passes priced on the
device, and the search over thresholds, blocks and caches of its rule. Leaves out rules that need
more than a confidence trace holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.answers.answer import Answer
from app.answers.predict.rows import PredictionRow, Predictions
from app.dashboard.answer import Card, PageAnswer, lower, scenario
from app.dashboard.answers.diffusion.front import (
    Search,
    front_answer,
    plain_words,
    reach_words,
    searched,
    searched_shipped,
)
from app.dashboard.answers.diffusion.recommended import (
    METHOD,
    POLICY,
    asked_policy,
    fallback,
    recommended_policy,
    recordings_of,
)
from app.dashboard.answers.diffusion.recordings import (
    Recording,
    names_beside,
    own_recording,
    readable,
    recording_name,
    shipped_recording,
)
from app.dashboard.asking import Asked
from app.dashboard.changes import asking_along
from app.dashboard.held import OWN_FILE
from app.dashboard.question import where_asked
from app.dashboard.state import State, milliseconds, with_values
from app.questions.predict import PredictQuestion
from app.render.charts.charts import batch_axis, digits, framed, line_of
from app.render.charts.confidence_figures import confidence_figure, confidence_note
from app.render.charts.limit_lines import pace_line
from costmodel.configuration import DecodingConfiguration
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.units import MILLI
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.library import trace_name
from traces.replay.confidence.passes import prompt_passes
from traces.replay.confidence.summary import recorded_policies
from traces.replay.confidence.walk import RefineReplay

BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Speeds:
    """A policy's speed beside its twin's.

    Args:
        at_batch: of the policy, at the state's batch.
        over: the same at every batch that fits.
        twins: of plain decoding, at these batches.
    """

    at_batch: PredictionRow
    over: Sequence[PredictionRow]
    twins: Sequence[PredictionRow]


def answer_diffusion(
    state: State, uploaded: ConfidenceTrace | Recording | None = None
) -> PageAnswer:
    """The page's answer for the state's policy.

    Args:
        state: the page's question.
        uploaded: instead of a shipped trace.

    Raises:
        InputError: a policy that the trace cannot answer for, no such prompt, options that exclude
            each other.
        InfeasibleError: the batch does not fit.
    """
    recordings = recordings_of(state) if uploaded is None else [own_recording(uploaded)]
    names = [
        OWN_FILE if recording.path is None else trace_name(recording.path)
        for recording in recordings
    ]
    search = asked_policy(state, names)
    is_open = not all(getattr(state, name) for name in POLICY)
    best = recommended_policy(state, recordings) if is_open else None
    policy = best or fallback(state, recordings[0].prompts.cache)
    recording = recordings[0]
    if uploaded is None:
        state = with_values(state, {"cache": policy.cache})
        recording = shipped_recording(recording_name(state))
    prompts = len(recording.anchors.prompts)
    if state.recorded_prompt > prompts:
        raise InputError(
            f"must lie in 1..{prompts}, the prompts of the recording",
            key="recorded_prompt",
            value=state.recorded_prompt,
        )
    replay = recording.replay(policy)
    passes = prompt_passes(recording.anchors, policy, state.recorded_prompt - 1)
    configuration = _scenario(state, policy, recording.anchors.canvas_tokens)
    asked = asked_diffusion(
        state, policy, OWN_FILE if recording.path is None else trace_name(recording.path)
    )
    with readable(recording) as place:
        answer = asked.changed(trace=place, batch=",".join(map(str, _batches(state)))).answer()
    assert isinstance(answer, Predictions)
    speeds = _speeds(state, answer)
    return PageAnswer(
        headline=_headline(state, replay, speeds, is_recommended=best is not None),
        command=asked.line,
        numbers=_numbers(replay, speeds),
        cards=[
            lower(
                Card(
                    title="Confidence, pass by pass",
                    note=confidence_note(passes),
                    figure=confidence_figure(passes),
                ),
                400,
            ),
            asking_along(
                Card(
                    title="Speed against batch",
                    note="Of the whole batch; the twin is plain decoding of a model of its shape.",
                    figure=_speed_figure(speeds, milliseconds(state.slo_tpot)),
                ),
                "batch",
            ),
        ],
        tables=[
            ("Recorded policies", _recorded(recording.trace, state.seed)),
            *([("What recommends the policy", [{"command": search.line}])] if is_open else []),
        ],
        notes=_chosen_notes(state, best, is_open=is_open) + _notes(state, recording.trace, replay),
        sure=answer.how_sure[0],
        deferred=lambda: front_answer(
            (
                searched(_search(state, configuration), [recording])
                if recording.path is None
                else searched_shipped(_search(state, configuration), names_beside(state, recording))
            ),
            policy,
            batch=state.batch,
            context=state.context,
            floor=state.agreement_ratio,
            tpot_limit_s=milliseconds(state.slo_tpot),
            seed=state.seed,
        ),
        own_file=recording.path is None,
        command_answer=lambda: _at_batch(asked, recording),
    )


def _at_batch(asked: Asked, recording: Recording) -> Answer:
    """What the command line answers, which asks about the state's batch alone."""
    with readable(recording) as place:
        return asked.changed(trace=place).answer()


def _search(state: State, configuration: DecodingConfiguration) -> Search:
    assert configuration.refine is not None
    return Search(
        question=replace(configuration, refine=None),
        policy=configuration.refine,
        batches=tuple(_batches(state)),
        context=state.context,
        seed=state.seed,
    )


def _scenario(state: State, policy: RefinePolicy, canvas_tokens: int) -> DecodingConfiguration:
    return replace(scenario(state, method=METHOD), refine=policy, canvas_tokens=canvas_tokens)


def _batches(state: State) -> list[int]:
    return sorted({*BATCHES, state.batch})


def asked_diffusion(state: State, policy: RefinePolicy, trace: str) -> Asked:
    """What `predict` is asked of a state.

    Args:
        state: the page's question.
        policy: what the page shows.
        trace: the recording as a command line names it.
    """
    rule = ",".join(f"{name}={value:g}" for name, value in policy.at.items())
    return Asked(
        verb=PredictQuestion,
        values={
            **where_asked(state),
            "method": METHOD,
            "trace": trace,
            "commit": f"{policy.commit}:{rule}",
            "block": str(policy.block_tokens),
            "cache": policy.cache,
            "batch": str(state.batch),
            "context": str(state.context),
            "slo_tpot": state.slo_tpot,
            "seed": state.seed,
        },
    )


def _speeds(state: State, answer: Predictions) -> _Speeds:
    """The speeds of an answer over batches.

    Raises:
        InfeasibleError: the state's batch does not fit.
    """
    policies = [row for row in answer.predictions if row.draft_tokens]
    own = next(row for row in policies if row.batch == state.batch)
    if not isinstance(own, PredictionRow):
        raise InfeasibleError(own.reason_words)
    over = [row for row in policies if isinstance(row, PredictionRow)]
    fitting = {row.batch for row in over}
    twins = [
        row
        for row in answer.predictions
        if isinstance(row, PredictionRow) and not row.draft_tokens and row.batch in fitting
    ]
    return _Speeds(at_batch=own, over=over, twins=twins)


def _chosen_notes(state: State, best: RefinePolicy | None, *, is_open: bool) -> list[str]:
    """Whether what is not chosen on the page is what is recommended."""
    if not is_open:
        return []
    limit = f" within {state.slo_tpot:g} ms a token" if state.slo_tpot else ""
    floor = f"agreement {state.agreement_ratio:g} or more{limit}"
    if best is not None:
        return [f"What is not chosen here is what `optimize` recommends at {floor}."]
    return [f"Nothing that is open here reaches {floor}: the rule's own threshold stands."]


def _headline(state: State, replay: RefineReplay, speeds: _Speeds, *, is_recommended: bool) -> str:
    policy, at_batch = replay.policy, speeds.at_batch
    agreement = replay.agreement.mean
    where = "" if np.isnan(agreement) else f"at agreement {agreement:.2f}, "
    tokens = (
        f"{digits(at_batch.tokens_per_step)} tokens a pass, {digits(at_batch.tokens_per_s)}"
        " tokens/s"
    )
    twin = f"{digits(at_batch.speedup)}× the autoregressive twin at batch {state.batch:,}"
    words = f"{plain_words(policy)}{', as recommended' * is_recommended}"
    sentence = f"{where}{words}: {tokens}, {twin}"
    ahead = {row.batch: row.speedup >= 1.0 for row in speeds.over}
    return f"{sentence[0].upper()}{sentence[1:]}; {reach_words(ahead)}"


def _numbers(replay: RefineReplay, speeds: _Speeds) -> list[tuple[str, str]]:
    low, high = speeds.at_batch.tokens_per_step_interval
    spread = f" ({digits(low)}–{digits(high)})" if low < high else ""
    agreement = replay.agreement
    lowest, highest = (100 * float(bound.mean()) for bound in (agreement.lower, agreement.upper))
    bounds = f" ({lowest:.0f}–{highest:.0f})" if lowest < highest else ""
    return [
        ("Tokens per pass", f"{digits(speeds.at_batch.tokens_per_step)}{spread}"),
        (
            "Agreement with one token a pass",
            "unknown" if np.isnan(agreement.mean) else f"{100 * agreement.mean:.1f} %{bounds}",
        ),
        ("Whole batch", f"{digits(speeds.at_batch.tokens_per_s)} tokens/s"),
        ("Against the autoregressive twin", f"{digits(speeds.at_batch.speedup)}×"),
        ("Passes of a canvas", digits(float(replay.steps.mean()))),
    ]


def _speed_figure(speeds: _Speeds, tpot_limit_s: float | None) -> dict[str, object]:
    batches = [row.batch for row in speeds.over]
    lines = {"masked decoding": speeds.over, "autoregressive twin": speeds.twins}
    data = [
        line_of(
            name,
            place,
            [row.batch for row in rows],
            [row.tokens_per_s for row in rows],
            [
                f"<b>{name}</b><br>batch {row.batch:,}: {digits(row.tokens_per_s)} tokens/s<br>"
                f"{digits(row.tpot_s / MILLI)} ms per token"
                for row in rows
            ],
        )
        for place, (name, rows) in enumerate(lines.items())
    ]
    side = {"title": {"text": "tokens/s, whole batch"}, "type": "log", "dtick": "D2"}
    limit = pace_line(batches, tpot_limit_s)
    return framed([*data, *limit], batch_axis(batches), side, showlegend=True)


def _recorded(trace: ConfidenceTrace, seed: int) -> Sequence[Mapping[str, object]]:
    return [
        {
            "policy": policy.policy.name,
            "prompts": policy.runs,
            "passes": policy.steps,
            "tokens per pass": round(policy.tokens_per_step, 3),
            "80 % interval": "–".join(digits(value) for value in policy.interval),
            "agreement (%)": None if policy.agreement is None else round(100 * policy.agreement, 1),
            "mean doubt of a commit": round(policy.commit_doubt, 4),
        }
        for policy in recorded_policies(trace, seed=seed)
    ]


def _notes(state: State, trace: ConfidenceTrace, replay: RefineReplay) -> list[str]:
    p, model = trace.provenance, trace.provenance.model or "a model that the trace does not name"
    text = f" on {p.dataset}" if p.dataset else ""
    notes = [
        (
            f"Recorded with {model}{text}: tokens per pass and agreement are borrowed for a masked"
            f" decoder of the shape of {state.model}, and yours may differ."
        ),
        "Agreement is the share of positions with the token that one token a pass writes there.",
    ]
    if not replay.is_exact:
        notes.append(
            "This policy was not recorded: the nearest recorded states stand for its own, and the"
            " interval is by states that hold less and more."
        )
    if replay.is_beyond_anchors:
        notes.append(
            f"It commits more a pass than the boldest recorded policy ({digits(replay.boldest)}),"
            " where nearest states mislead more."
        )
    if replay.policy.commit == "self_verified":
        notes.append(
            "The heat map is of one token a pass, from which the drafts are made; their text is the"
            " same."
        )
    return notes
