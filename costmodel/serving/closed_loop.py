"""What do c users see who keep an engine busy: time to first token, time per output token, throughput?

The front door of the serving model: a deployment under an engine's policy and a closed loop of equal requests.
Leaves out the network, what streaming costs, open-loop arrivals and prefix sharing.

Reference: Agrawal et al. 2024, "Sarathi-Serve" (arXiv:2403.02310), section 4, for iterations that mix prompts and
decodes; Kwon et al. 2023, "PagedAttention" (arXiv:2309.06180), section 4.5, for preemption by recomputation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.forward import Deployment
from costmodel.memory import activation_bytes, kv_bytes, weight_bytes
from costmodel.ops import Array
from costmodel.overheads import Overhead
from costmodel.serving.iteration import CONTEXT_STEP, PROMPT_STEP, IterationTables, tabulate
from costmodel.serving.libraries import with_reductions
from costmodel.serving.policies import GROUP_BYTES, Policy
from costmodel.step import StepCost
from costmodel.uncertainty import DRAWS, draw_steps, interval
from hardware_profiles.errors import InfeasibleError, InputError

# NVIDIA's load generators are run with ten requests a user (and two to warm up): ai-dynamo/dynamo benchmark scripts,
# `--request-count $(($concurrency*10)) --warmup-request-count $(($concurrency*2))`. The first burst counts.
REQUESTS_PER_USER = 10
# What a front end needs to receive and queue a prompt, ASSUMED, and to tokenise it, which engines do in one thread
# (vLLM issue 25301; SGLang's tokenizer manager): 2.4 us a token, measured with Hugging Face tokenizers 0.23 on English
# text and one core of an EPYC server, best CPU time of 20 prompts of 4096 tokens. Published figures run from 1.2
# (tokenizers pull request 1967) to 10 (tt-inference-server issue 2173).
INTAKE_S = 1e-3
INTAKE_TOKEN_S = 2.4e-6
MOST_TOKENS = 1 << 18  # of one request
MOST_WORK = 2_000_000_000  # output tokens of a run
_HOST = "host"
Whole = npt.NDArray[np.int64]
# Half-widths of the 80 % interval of what a replay leaves out: settings that no table states, front ends, the load
# generator. ASSUMED: 1.9 times (80 % over 50 % of a normal distribution) the median errors, 12 % in TPOT and 46 % in
# TTFT, of the configurator that answers such tables from kernel times measured in its engines.
TPOT_LEFT_OUT_RATIO = 0.23
TTFT_LEFT_OUT_RATIO = 0.87
_SIGMA_80 = 1.2816  # standard normal quantile at 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A closed loop of requests that are alike.

    Args:
        users: c, each with one request at a time.
        prompt_tokens: of every request.
        output_tokens: of every request, >= 1.
        requests_per_user: requests a user sends; all users start together, and every request counts.
        length_spread: of prompts and outputs, in [0, 1): lengths are drawn evenly between 1 - spread of the tokens
            above and all of them. Equal requests that start together stay together; these drift apart.

    Raises:
        InputError: a number out of its range, or more than can be replayed.
    """

    users: int
    prompt_tokens: int
    output_tokens: int
    requests_per_user: int = REQUESTS_PER_USER
    length_spread: float = 0.0

    def __post_init__(self) -> None:
        for key in ("users", "prompt_tokens", "output_tokens", "requests_per_user"):
            if getattr(self, key) < 1:
                raise InputError("must be at least 1", key=key, value=getattr(self, key))
        if not 0.0 <= self.length_spread < 1.0:
            raise InputError("must lie in [0, 1)", key="length_spread", value=self.length_spread)
        if self.context_tokens > MOST_TOKENS:
            rule = f"prompt and output may have {MOST_TOKENS} tokens together"
            raise InputError(rule, key="tokens", value=self.context_tokens)
        if self.requests * self.output_tokens > MOST_WORK:
            raise InputError(f"a run may emit {MOST_WORK} tokens", key="users", value=self.users)

    @property
    def requests(self) -> int:
        """Requests of the run."""
        return self.users * self.requests_per_user

    @property
    def context_tokens(self) -> int:
        """Tokens of a request at its end."""
        return self.prompt_tokens + self.output_tokens

    def lengths(self) -> tuple[Whole, Whole]:
        """Tokens of every prompt and of every output, [requests]; the same ones every time."""
        generator = np.random.default_rng(0)

        def drawn(most: int) -> Whole:
            least = max(1, round(most * (1.0 - self.length_spread)))
            return generator.integers(least, most + 1, size=self.requests)

        return drawn(self.prompt_tokens), drawn(self.output_tokens)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Served:
    """What the users see, means over all requests.

    Args:
        ttft_s: time to first token.
        tpot_s: time per output token after the first; of one token alone, nan.
        requests_per_s: finished requests over the time of the run.
        in_flight: mean requests that are sent and not answered.
        clock_s: time of the run.
        iterations: of the engine.
        preemptions: requests that gave way and started again.
        cache_tokens: tokens that the cache holds.
        seconds: of the run by operation, engine's overhead and exposed host time included.
        computed_prompt_tokens: prompt tokens computed, repeated ones included.
        decode_tokens: tokens emitted by decoding.
    """

    ttft_s: float
    tpot_s: float
    requests_per_s: float
    in_flight: float
    clock_s: float
    iterations: int
    preemptions: int
    cache_tokens: float
    seconds: Mapping[str, float]
    computed_prompt_tokens: int
    decode_tokens: int


def cache_tokens(deployment: Deployment, policy: Policy, *, context: int) -> float:
    """Tokens that an engine's KV cache holds, all devices of the group together.

    Leaves out the buffers through which the devices of a group talk, 1 to 2 GiB in eights.

    Args:
        deployment: model, device and how they run.
        policy: of the engine.
        context: tokens of a request at its end; layers with a window keep less of it.

    Raises:
        InfeasibleError: not even one request fits.
    """
    d = deployment
    weights = weight_bytes(d.architecture, d.precision, d.tensor_parallel)
    working = activation_bytes(d.architecture, d.precision, tokens=policy.batch_tokens, logit_rows=1)
    apart = float(working) / d.tensor_parallel if policy.activations_inside else 0.0
    seen = d.device.memory_bytes - policy.unseen_bytes
    joined = GROUP_BYTES if d.tensor_parallel > 1 else 0.0
    if policy.of_free:
        free = policy.memory_ratio * (seen - joined - weights - apart)
    else:
        free = policy.memory_ratio * seen - joined - weights - apart
    one = float(kv_bytes(d.architecture, d.precision, batch=1, context=context, tensor_parallel=d.tensor_parallel))
    if free < one:
        raise InfeasibleError(
            f"{d.architecture.name} in {d.precision.weights} leaves no room for a request of {context} tokens on "
            f"{d.tensor_parallel} x {d.device.name}"
        )
    return free / one * context


def tables_for(deployment: Deployment, policy: Policy, workload: Workload) -> IterationTables:
    """Tables that cover every iteration of a workload."""
    rows, requests = _most(policy, workload)
    return tabulate(
        with_reductions(deployment, policy.reductions), rows=rows, requests=requests, context=workload.context_tokens,
        head_norm_kernels=policy.head_norm_kernels,
    )  # fmt: skip


def serve(
    deployment: Deployment,
    policy: Policy,
    overhead: Overhead,
    workload: Workload,
    *,
    tables: IterationTables | None = None,
) -> Served:
    """Replay a closed loop and report what its users see.

    Args:
        deployment: model, device and how they run.
        policy: how the engine schedules.
        overhead: what the engine adds to an iteration.
        workload: users and their requests.
        tables: of `tables_for` or larger; None makes them.

    Raises:
        InfeasibleError: one request does not fit.
        InputError: tables that are too small.

    >>> from costmodel.model_library import load_model
    >>> from costmodel.overheads import BARE
    >>> from costmodel.precision import Precision
    >>> from costmodel.serving.policies import policy
    >>> from hardware_profiles.loader import load_device
    >>> h100 = load_device("h100-sxm")
    >>> d = Deployment(architecture=load_model("llama-3.1-8b"), device=h100, precision=Precision())
    >>> seen = serve(d, policy("vllm", h100), BARE, Workload(users=8, prompt_tokens=1024, output_tokens=128))
    >>> bool(0.02 < seen.ttft_s < 0.3), bool(0.005 < seen.tpot_s < 0.012)
    (True, True)
    """
    from costmodel.serving.replay import DECODED, PREEMPTED, PROMPT, Limits, Prices, replay

    rows, requests = _most(policy, workload)
    tables = tables or tables_for(deployment, policy, workload)
    if not tables.covers(rows=rows, requests=requests, context=workload.context_tokens):
        raise InputError("tables are too small for this workload", key="tables")
    capacity = cache_tokens(deployment, policy, context=workload.context_tokens)
    limits = Limits(
        mixes=policy.mixes,
        chunks=policy.chunks,
        batch_tokens=policy.batch_tokens,
        requests=policy.requests,
        cache_tokens=capacity,
        reserve_ratio=policy.reserve_ratio,
        graph_rows=policy.graph_rows,
        eager_s=_layers(deployment) * deployment.device.constants.host_layer_s,
        step_s=overhead.step_s,
        token_s=overhead.token_s,
        intake_s=INTAKE_S + INTAKE_TOKEN_S * workload.prompt_tokens,
        ahead=policy.ahead,
    )
    prices = Prices(
        row_s=tables.row_seconds.sum(axis=0),
        head_s=tables.head_seconds.sum(axis=0),
        decode_s=tables.decode_attention_s,
        prompt_s=tables.prompt_attention_s,
        launch_s=tables.prompt_launch_s,
        context_step=CONTEXT_STEP,
        prompt_step=PROMPT_STEP,
    )
    prompts, outputs = workload.lengths()
    run = replay(workload.users, workload.requests, prompts, outputs, limits, prices)
    spent, later = run.last_s - run.ttft_s, outputs - 1
    return Served(
        ttft_s=float(run.ttft_s.mean()),
        tpot_s=float((spent[later > 0] / later[later > 0]).mean()) if later.any() else float("nan"),
        requests_per_s=workload.requests / run.clock_s,
        in_flight=float(run.last_s.sum() / run.clock_s),
        clock_s=run.clock_s,
        iterations=run.iterations,
        preemptions=int(run.counts[PREEMPTED]),
        cache_tokens=capacity,
        seconds=_by_operation(tables, run.row_counts, run.sampled_counts, run.seconds),
        computed_prompt_tokens=int(run.counts[PROMPT]),
        decode_tokens=int(run.counts[DECODED]),
    )


def served_interval(
    served: Served, deployment: Deployment, overhead: Overhead, *, generator: np.random.Generator, draws: int = DRAWS
) -> tuple[tuple[float, float], tuple[float, float]]:
    """80 % intervals of (TTFT, TPOT): the run's seconds by operation under drawn errors, and what a replay leaves out.

    Both scale with the time of the run; that the schedule itself would change counts among what is left out.
    """
    constants = deployment.device.constants
    passes = {name: np.asarray(value) for name, value in served.seconds.items() if name not in ("overhead", _HOST)}
    fixed = np.asarray(served.seconds["overhead"] + served.seconds[_HOST])
    zero = np.zeros(())
    run = StepCost(draft={}, verify=passes, overhead_s=fixed, compute_s=zero, memory_s=zero, launch_s=zero)
    drawn = draw_steps(run, run, constants.residual_ratio, overhead, generator=generator, draws=draws)
    scale = drawn.plain_s[:, 0] / sum(served.seconds.values())
    bounds = []
    for value, ratio in ((served.ttft_s, TTFT_LEFT_OUT_RATIO), (served.tpot_s, TPOT_LEFT_OUT_RATIO)):
        sigma = np.log1p(ratio) / _SIGMA_80
        low, high = interval(value * scale * np.exp(sigma * generator.standard_normal(draws)))
        bounds.append((float(low), float(high)))
    return bounds[0], bounds[1]


def _most(policy: Policy, workload: Workload) -> tuple[int, int]:
    """Most rows and most decoding requests of an iteration."""
    requests = min(workload.users, policy.requests)
    prompt = workload.context_tokens  # after a preemption, the tokens already made are computed again
    return max(policy.batch_tokens, prompt) + requests, requests


def _layers(deployment: Deployment) -> int:
    return sum(count for _, count in deployment.architecture.blocks)


def _by_operation(tables: IterationTables, rows: Whole, sampled: Whole, seconds: Array) -> dict[str, float]:
    from costmodel.serving.replay import DECODE_ATTENTION, HOST, OVERHEAD, PROMPT_ATTENTION

    width = rows.shape[0]
    spent = dict(zip(tables.row_operations, (tables.row_seconds[:, :width] @ rows).tolist(), strict=True))
    spent |= dict(zip(tables.head_operations, (tables.head_seconds @ sampled).tolist(), strict=True))
    spent[tables.attention_operation] = float(seconds[DECODE_ATTENTION] + seconds[PROMPT_ATTENTION])
    return spent | {_HOST: float(seconds[HOST]), "overhead": float(seconds[OVERHEAD])}
