"""A random question, in the words of every door that answers it.

`Question` is one deployment with one drafter, one batch and one load; it spells itself for the
verbs of the command line, for Python, for a file of `sweep` and for a link of the dashboard. `draw`
draws questions over what is shipped, so that a relation between doors is tried where nobody looked.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from app.dashboard.state import State, drafting_methods
from costmodel.architectures.library import load_model, model_names
from costmodel.engine_library import engine_names, load_engine
from costmodel.method_library import load_method
from hardware_profiles.loader import device_names, load_device

OTHERWISE_DECODED = ("dream-", "llada", "lpd-", "t5-", "whisper-")
"""Models of masked blocks and with an encoder: their questions have other options."""
USUAL_MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.2-1b",
    "qwen3-8b",
    "qwen3-32b",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "qwen2.5-7b",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "deepseek-v3",
    "deepseek-v2-lite",
    "kimi-k2",
    "mixtral-8x7b",
    "gemma-3-27b",
    "glm-4.5-air",
    "mistral-small-24b",
)
BATCHES = (1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 64, 100, 128, 200, 256)
CONTEXTS = (16, 128, 500, 1024, 2048, 4096, 10_000, 32_768)
DTYPES = (None, None, None, "bf16", "fp8", "int4", "fp4", "int8", "fp16")
CACHES = (None, None, None, "bf16", "fp8")
USUAL_METHODS = (
    "eagle",
    "eagle-2",
    "eagle-3",
    "mtp",
    "medusa",
    "n-gram",
    "suffix-decoding",
    "speculative-decoding",
    "pearl",
    "specbranch",
    "lookahead",
    "dflash",
    "early-exit",
    "hydra",
    "parallel-speculative-sampling",
)
DRAFT_MODELS = {
    "llama-3.": "llama-3.2-1b",
    "llama-2": "llama-68m",
    "vicuna": "llama-68m",
    "codellama": "llama-160m",
    "qwen2.5": "qwen2.5-0.5b",
    "qwen3-": "qwen3-0.6b",
    "gemma-2-": "gemma-2-2b",
    "gemma-3-": "gemma-3-1b",
    "opt-": "opt-125m",
    "gpt2": "distilgpt2",
    "smollm2": "smollm2-135m",
}
"""By the beginning of a target's name, a small model of its family, with its vocabulary."""
SIMULATED = {
    "tp": "deployment.tensor_parallel",
    "dtype": "deployment.dtype",
    "kv-dtype": "deployment.kv_dtype",
    "draft": "speculation.draft",
    "match-rate": "speculation.match_rate",
}
"""Options that `simulate` takes as keys of a scenario."""

Options = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One deployment with one drafter, one batch and one load.

    Args:
        model: target, by shipped name.
        device: by shipped name.
        engine: by name.
        tp: devices that share every layer.
        dtype: format of the weights; None: the checkpoint's.
        kv_dtype: format of the cache; None: the usual one.
        overrides: numbers of the device that are changed, `device.KEY=VALUE`.
        method: slug of the drafting method.
        draft: draft model; None where the method has none.
        acceptance: chance of a draft token to be accepted, those before it being accepted.
        match_rate: share of steps with a proposal; None: it is not stated.
        draft_tokens: K, at least 1.
        batch: requests.
        context: cached tokens per request.
        requests_per_s: of the load.
        prompt_tokens: of its requests.
        output_tokens: of its requests, even, so that the mean context of decoding is a whole
            number.
    """

    model: str
    device: str
    engine: str = "vllm"
    tp: int = 1
    dtype: str | None = None
    kv_dtype: str | None = None
    overrides: tuple[str, ...] = ()
    method: str = "eagle-3"
    draft: str | None = None
    acceptance: float = 0.7
    match_rate: float | None = None
    draft_tokens: int = 3
    batch: int = 1
    context: int = 1024
    requests_per_s: float = 1.0
    prompt_tokens: int = 1024
    output_tokens: int = 256

    def changed(self, **fields: Any) -> "Question":
        """The same question with other values of some fields."""
        return replace(self, **fields)

    def with_number(self, key: str, ratio: float) -> "Question":
        """The same question on a device one number of which is so many times as large."""
        number = load_device(self.device)
        for part in key.split("."):
            number = number[part] if isinstance(number, Mapping) else getattr(number, part)
        return replace(self, overrides=(*self.overrides, f"device.{key}={number * ratio:.17g}"))

    @property
    def placed(self) -> Options:
        """What runs where."""
        return {
            "model": self.model,
            "device": self.device,
            "engine": self.engine,
            "tp": self.tp,
            "dtype": self.dtype,
            "kv-dtype": self.kv_dtype,
            "set": self.overrides,
        }

    @property
    def drafter(self) -> Options:
        """What drafts."""
        return {"method": self.method, "draft": self.draft}

    @property
    def stated(self) -> Options:
        """What is accepted of it."""
        return {"acceptance": self.acceptance, "match-rate": self.match_rate}

    @property
    def point(self) -> Options:
        """At which batch and context."""
        return {"batch": self.batch, "context": self.context}

    @property
    def decode_context(self) -> int:
        """Cached tokens that a decoding request of the load reads on average."""
        return self.prompt_tokens + self.output_tokens // 2

    def predict(self, lengths: str | int | None = None, **more: Any) -> tuple[str, ...]:
        """`predict` at draft lengths; of None at 0 and K."""
        lengths = f"0,{self.draft_tokens}" if lengths is None else lengths
        return words(
            "predict",
            self.placed,
            self.drafter,
            self.stated,
            self.point,
            {"draft-tokens": lengths},
            more,
        )

    def optimize(self, lengths: str | int | None = None, **more: Any) -> tuple[str, ...]:
        """`optimize` among chains of draft lengths; of None of K."""
        lengths = self.draft_tokens if lengths is None else lengths
        drafts = {"draft-tokens": lengths, "tree-nodes": 0}
        return words("optimize", self.placed, self.drafter, self.stated, self.point, drafts, more)

    def competition(self) -> tuple[str, ...]:
        """`optimize` among all drafts of the drafter that are usual."""
        drafter = f"{self.method}:{self.acceptance:g}"
        return words("optimize", self.placed, {"draft": self.draft, "drafter": drafter}, self.point)

    def breakeven(self, **more: Any) -> tuple[str, ...]:
        """`breakeven` of K draft tokens, whose acceptance is unknown."""
        lengths = {"draft-tokens": self.draft_tokens}
        return words("breakeven", self.placed, self.drafter, self.point, lengths, more)

    def capacity(self, **more: Any) -> tuple[str, ...]:
        """`capacity` for the load, with K draft tokens beside plain decoding."""
        load = {
            "rate": self.requests_per_s,
            "prompt": self.prompt_tokens,
            "output": self.output_tokens,
        }
        drafts = {"draft-tokens": self.draft_tokens}
        return words("capacity", self.placed, self.drafter, self.stated, load, drafts, more)

    def full(self, **more: Any) -> tuple[str, ...]:
        """`optimize --search full` with one value on every axis: this layout, these formats, this
        batch cap and K."""
        load = {"prompt-tokens": self.prompt_tokens, "output-tokens": self.output_tokens}
        axes = {
            "search": "full",
            "devices": self.tp,
            "layouts": f"tp{self.tp}",
            "batch-caps": self.batch,
            "token-budgets": 65_536,
            "draft-tokens": self.draft_tokens,
            "tree-nodes": 0,
        }
        placed = {name: value for name, value in self.placed.items() if name != "tp"}
        fixed = {**axes, "no-simulate": True, **more}
        return words("optimize", placed, self.drafter, self.stated, load, fixed)

    def simulate(
        self,
        *,
        drafts: bool = True,
        places: int | None = None,
        replicas: int | None = None,
        **more: Any,
    ) -> tuple[str, ...]:
        """`simulate` of requests of the load's lengths.

        Args:
            drafts: with the drafter, else of plain decoding.
            places: most requests in flight; None: the engine's own number.
            replicas: that share the load; None: one.
            more: how they arrive.
        """
        stated = (
            {**self.drafter, **self.stated, "draft-tokens": self.draft_tokens} if drafts else {}
        )
        named = {
            name: value
            for name, value in {**self.placed, **stated}.items()
            if name not in (*SIMULATED, "set")
        }
        keys = {
            SIMULATED[name]: value
            for name, value in {**self.placed, **stated}.items()
            if name in SIMULATED
        }
        keys |= {"scheduler.max_requests": places, "replicas": replicas}
        assigned = tuple(f"{key}={value}" for key, value in keys.items() if value is not None)
        load = {"prompt-tokens": self.prompt_tokens, "output-tokens": self.output_tokens}
        return words("simulate", named, {"set": (*assigned, *self.overrides)}, load, more)

    def sweep(self) -> dict[str, list[Any]]:
        """The lists of a sweep of this one cell: formats, overrides and draft models it has no
        lists of."""
        return {
            "models": [self.model],
            "devices": [self.device],
            "engines": [self.engine],
            "tensor_parallel": [self.tp],
            "drafters": [f"{self.method}:{self.acceptance:g}"],
            "batches": [self.batch],
            "contexts": [self.context],
        }

    def state(self) -> State:
        """The dashboard's question."""
        return State(
            model=self.model,
            device=self.device,
            engine=self.engine,
            tp=self.tp,
            dtype=self.dtype or "",
            kv_dtype=self.kv_dtype or "",
            method=self.method,
            draft=self.draft or "",
            known_by="rate",
            acceptance=str(self.acceptance),
            batch=self.batch,
            context=self.context,
        )


def words(verb: str, *options: Options) -> tuple[str, ...]:
    """The words of a command: options that are None are left out, tuples are repeated, True is a
    flag."""
    said: list[str] = []
    for name, value in {key: value for part in options for key, value in part.items()}.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            said.append(option)
        elif value is not None:
            for one in value if isinstance(value, tuple) else (value,):
                said += [option, str(one)]
    return (verb, *said)


def line(spelled: tuple[str, ...]) -> str:
    """A command line to be pasted into a shell."""
    return shlex.join(["rooftree", *spelled])


def keywords(spelled: tuple[str, ...]) -> dict[str, Any]:
    """The words of a command as the keyword arguments of the Python function of its verb."""
    wanted: dict[str, Any] = {}
    rest = list(spelled[1:])
    while rest:
        name = rest.pop(0).removeprefix("--").replace("-", "_")
        value: Any = True if not rest or rest[0].startswith("--") else rest.pop(0)
        if name.startswith("no_"):
            name, value = name.removeprefix("no_"), False
        wanted[name] = [wanted[name], value] if name == "set" and name in wanted else value
    return wanted


@cache
def decoders() -> tuple[str, ...]:
    """Shipped models that write one token at a time."""
    return tuple(name for name in model_names() if not name.startswith(OTHERWISE_DECODED))


@cache
def calibrated_devices() -> tuple[str, ...]:
    """Shipped devices, those with constants of their own several times: most people have one of
    them."""
    names = tuple(device_names())
    return (*names, *(name for name in names if load_device(name).calibrated for _ in range(3)))


def draw(seed: int, count: int, **fields: Any) -> Iterator[Question]:
    """Random questions.

    Args:
        seed: of the draws; the same seed draws the same questions.
        count: of questions.
        fields: values that all of them have.
    """
    generator = np.random.default_rng(seed)
    for _ in range(count):
        yield replace(_drawn(generator), **fields)


def _drawn(generator: np.random.Generator) -> Question:
    def one(among: Any) -> Any:
        return among[int(generator.integers(len(among)))]

    model = one(USUAL_MODELS if generator.random() < 0.5 else decoders())
    device = one(calibrated_devices())
    dtype = one(DTYPES)
    small = next(
        (name for start, name in DRAFT_MODELS.items() if model.startswith(start) and name != model),
        None,
    )
    methods = USUAL_METHODS if generator.random() < 0.5 else drafting_methods()
    able = [
        slug for slug in methods if small is not None or not load_method(slug).needs_draft_model
    ]
    method = one(able)
    takes = load_method(method)
    # those of no engine, and of engines that configurations are written for: others have fewer doors
    written = [name for name in engine_names() if name == "none" or load_engine(name).options]
    engines = ("vllm", *sorted(written))
    needed = load_model(model).parameters * {
        None: 2.0,
        "bf16": 2.0,
        "fp16": 2.0,
        "int4": 0.6,
        "fp4": 0.6,
    }.get(dtype, 1.0)
    fewest = int(2 ** np.ceil(np.log2(max(needed / (0.8 * load_device(device).memory_bytes), 1.0))))
    tp = min(fewest * one((1, 1, 1, 2)), 8) if generator.random() < 0.9 else 1
    return Question(
        model=model,
        device=device,
        engine=one(engines),
        tp=tp,
        dtype=dtype,
        kv_dtype=one(CACHES),
        method=method,
        draft=small if takes.needs_draft_model else None,
        acceptance=round(float(generator.uniform(0.2, 0.95)), 2),
        match_rate=round(float(generator.uniform(0.1, 0.9)), 2)
        if takes.may_propose_nothing and generator.random() < 0.5
        else None,
        draft_tokens=int(generator.integers(1, 9)),
        batch=one(BATCHES),
        context=one(CONTEXTS),
        requests_per_s=round(float(np.exp(generator.uniform(np.log(0.2), np.log(20.0)))), 2),
        prompt_tokens=int(np.exp(generator.uniform(np.log(64), np.log(4096)))),
        output_tokens=2 * int(np.exp(generator.uniform(np.log(32), np.log(512)))),
    )
