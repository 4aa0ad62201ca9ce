"""Which joint search does `optimize --search full` ask for, and which requests are simulated?"""

from dataclasses import replace

import numpy as np

from app.answers.optimize.drafters import asked_drafters, deployment_options, draft_axes
from app.answers.optimize.joint.simulated import Traffic
from app.answers.placements import listed_placements, one_deployment
from app.questions.optimize import OptimizeQuestion
from costmodel.answers.workload import Limits, Load, load_of_requests
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.joint.objective import objective_named
from costmodel.optimizers.joint.space import (
    PROMPTS,
    TOKEN_BUDGETS,
    JointQuestion,
)
from costmodel.optimizers.layouts import BATCHES, Layout, layout_named, usual_layouts
from costmodel.optimizers.recommend import compare
from hardware_profiles.errors import InputError
from simulator.scenario.arrivals import drawn_lengths
from traces.importers.formats import read_requests_any

PROMPT_TOKENS, OUTPUT_TOKENS = "1024", "uniform:128:384"
_LOAD_REQUESTS = 2000  # drawn to say what lengths a law has


def joint_question(question: OptimizeQuestion) -> tuple[JointQuestion, Traffic]:
    """What a joint search is asked, and the requests that designs are simulated with.

    Raises:
        InputError: several models or engines, or values out of range.
    """
    load, traffic = _load_and_traffic(question)
    options, axes = deployment_options(question), draft_axes(question)
    base, sources = asked_drafters(question, one_deployment(options), axes)
    compared = compare(base, sources, seed=question.seed, **axes)
    joint = JointQuestion(
        compared=compared,
        placements=listed_placements(options, _layouts(question, compared.question)),
        most_devices=question.devices,
        batch_caps=question.batch_caps or BATCHES,
        token_budgets=question.token_budgets or TOKEN_BUDGETS,
        load=load,
        rate_stated=question.rate is not None or question.requests is not None,
        slo=Limits(
            ttft_s=question.slo_ttft_s,
            share_ratio=question.good_share,
            tpot_s=question.slo_tpot_s,
        ),
        maximise=objective_named(question.maximise),
        seed=question.seed,
    )
    return joint, traffic


def _load_and_traffic(question: OptimizeQuestion) -> tuple[Load, Traffic]:
    """The load, and the requests that simulations serve.

    Raises:
        InputError: lengths beside a file that has its own, or forms that are none.
    """
    if question.requests is not None and (question.prompt_tokens or question.output_tokens):
        raise InputError(
            "--requests has its own lengths; leave out --prompt-tokens and --output-tokens"
        )
    traffic = Traffic(
        requests=question.requests,
        prompt_tokens=question.prompt_tokens or PROMPT_TOKENS,
        output_tokens=question.output_tokens or OUTPUT_TOKENS,
    )
    if question.requests is not None:
        recorded = read_requests_any(question.requests, None)
        load = load_of_requests(recorded, requests_per_s=question.rate, prompts=PROMPTS)
        return load, replace(traffic, count=min(traffic.count, recorded.requests))
    drawn = drawn_lengths(
        traffic.prompt_tokens, traffic.output_tokens, _LOAD_REQUESTS, np.random.default_rng(0)
    )
    return load_of_requests(drawn, requests_per_s=question.rate or 1.0, prompts=PROMPTS), traffic


def _layouts(question: OptimizeQuestion, base: DecodingConfiguration) -> list[Layout]:
    """The layouts that are named, else that of --tp and its like, else the usual ones."""
    if question.layouts:
        return [layout_named(text.strip()) for text in question.layouts.split(",")]
    where = base.deployment
    stated = Layout(
        where.tensor_parallel, where.data_parallel, where.expert_parallel, where.pipeline_parallel
    )
    return [stated] if stated != Layout() else usual_layouts(where.model, question.devices)
