"""The fields that several verbs take, each once."""

from pathlib import Path
from typing import Annotated

from app.questions.field import Control, Field, Group
from app.questions.values import (
    MOST_DRAFT_TOKENS,
    Bytes,
    LatencyLimit,
    Limit,
    MethodName,
    Rates,
    Share,
    WholeNumbers,
)
from costmodel.adapter_limits import MOST_ADAPTERS, MOST_RANK
from traces.kinds.refine_policy import MOST_CANVAS_TOKENS

_TARGET = Field(
    "Shipped name (`rooftree models`), Hugging Face id or path of a config.json or .gguf; several by"
    " commas.",
    Group.WORKLOAD,
    names="models",
    control=Control(
        "Model",
        (
            "A shipped model; or type a Hugging Face id, or a number of parameters such as `13b` for"
            " a dense model of usual shapes. A `config.json` of your own goes below."
        ),
    ),
)
Model = Annotated[str, _TARGET]
ModelOfScenario = Annotated[str | None, _TARGET]
ModelOrTraces = Annotated[
    str,
    Field(
        "Target: shipped name or config.json, several by commas. Default: the model of the first"
        " trace, else llama-3.1-8b; for masked blocks llada-8b.",
        Group.WORKLOAD,
        names="models",
    ),
]
AsFamily = Annotated[
    str | None,
    Field(
        "Read the model's config as of this family, such as llama.",
        Group.WORKLOAD,
        spelled="--as",
    ),
]
Config = Annotated[
    Path | None,
    Field(
        "A configuration, or recommendation.json of `optimize`; options beside it go over what it says.",
        Group.WORKLOAD,
    ),
]
Url = Annotated[
    str,
    Field("Address of the server, such as http://127.0.0.1:8080.", Group.WORKLOAD, argument=True),
]
Served = Annotated[str | None, Field("Which model, where the server has several.", Group.WORKLOAD)]
KeyEnv = Annotated[
    str | None,
    Field("Environment variable with the key that the server asks for.", Group.HARDWARE),
]
RequestKeys = Annotated[
    list[str] | None,
    Field(
        "Further key of every request, KEY=JSON: cache_prompt=false. Repeatable.", Group.WORKLOAD
    ),
]
Timeout = Annotated[
    float,
    Field("Seconds of silence after which an answer counts as lost.", Group.RUN, least=0.1),
]
RequestFile = Annotated[
    Path | None,
    Field(
        "Recorded requests: request trace, or a file that `traces import` knows.", Group.WORKLOAD
    ),
]
Rate = Annotated[
    float | None,
    Field(
        "Mean requests per second, Poisson arrivals.",
        Group.WORKLOAD,
        control=Control(
            "Requests per second",
            "Requests that arrive each second, on average, at random times.",
            least=0.01,
            most=10000,
        ),
    ),
]
Users = Annotated[
    int | None, Field("Closed loop: users, each with one request.", Group.WORKLOAD, least=1)
]
ThinkTime = Annotated[
    float | None,
    Field(
        "Of users: seconds between an answer and their next request; default: they ask again at once.",
        Group.WORKLOAD,
        least=0.0,
    ),
]
Count = Annotated[
    int | None,
    Field(
        "Requests; default: all of the file.",
        Group.WORKLOAD,
        control=Control(
            "Requests to simulate",
            "More of them make the tail surer and the simulation longer.",
            least=1,
            most=2000,
        ),
    ),
]
PromptTokens = Annotated[
    str | None,
    Field(
        "Without a file: N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEAN:VARIATION.",
        Group.WORKLOAD,
        also="--prompt",
        control=Control(
            "Mean prompt (tokens)", "Lengths vary around it (log-normal).", least=1, most=32768
        ),
    ),
]
OutputTokens = Annotated[
    str | None,
    Field(
        "Tokens to generate, in the same forms.",
        Group.WORKLOAD,
        also="--output",
        control=Control(
            "Mean output (tokens)", "Lengths vary around it (exponential).", least=1, most=8192
        ),
    ),
]
Batch = Annotated[
    tuple[int, ...],
    Field(
        "Batch sizes, comma-separated.",
        Group.WORKLOAD,
        reads=WholeNumbers(least=1),
        control=Control(
            "Batch (requests)",
            "Requests decoded together: what your engine reports as running requests.",
            least=1,
            most=1024,
            ticks=(1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024),
        ),
    ),
]
Context = Annotated[
    tuple[int, ...],
    Field(
        "Cached tokens per request, comma-separated.",
        Group.WORKLOAD,
        reads=WholeNumbers(least=0),
        control=Control(
            "Context (tokens)",
            "Tokens in the cache of each request, prompt and output so far; take the mean of your traffic.",
            most=131072,
            ticks=(256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
        ),
    ),
]
SharedPrefix = Annotated[
    int,
    Field(
        "Cached tokens that all requests begin with, read once for all.", Group.WORKLOAD, least=0
    ),
]
Device = Annotated[
    str,
    Field(
        "Shipped name (`rooftree devices`) or path of a TOML file; several by commas.",
        Group.HARDWARE,
        names="devices",
        control=Control(
            "Device",
            "What the model runs on. Devices that were not measured borrow constants, and answers say so.",
        ),
    ),
]
TensorParallel = Annotated[
    int,
    Field(
        "Devices that share the model.",
        Group.HARDWARE,
        control=Control(
            "Devices that share the model",
            "Tensor parallel: every layer is split over so many devices, which act as one.",
            least=1,
            most=8,
            ticks=(1, 2, 4, 8),
        ),
    ),
]
Pipeline = Annotated[int, Field("Pipeline stages of consecutive layers.", Group.HARDWARE)]
Expert = Annotated[int, Field("Devices that share the routed experts, each whole.", Group.HARDWARE)]
Data = Annotated[
    int, Field("Copies of the other layers, each with its own requests.", Group.HARDWARE)
]
Disaggregate = Annotated[
    bool,
    Field(
        (
            "Also plan prompts on workers of their own, both pools sized together by simulation of"
            " arrivals that know nothing of each other."
        ),
        Group.SEARCH,
    ),
]
ContextGroup = Annotated[
    int, Field("Devices that share the tokens of every request.", Group.HARDWARE)
]
Engine = Annotated[
    str,
    Field(
        (
            "Engine whose overheads apply: vllm, sglang, tensorrt-llm, llama.cpp, transformers,"
            " atom, none for passes alone, or an engine file (.toml) that `calibrate --server` wrote;"
            " several by commas."
        ),
        Group.HARDWARE,
        names="engines",
        control=Control(
            "Engine",
            "Whose overheads, kernels and scheduler are assumed, and whose command is written.",
        ),
    ),
]
EngineLog = Annotated[
    Path | None,
    Field(
        (
            "Log (or JSON) of the running engine: the cache that it said it has, in place of the"
            " one that follows."
        ),
        Group.HARDWARE,
    ),
]
HostWeights = Annotated[
    float,
    Field("Share of the layers' weights kept in host memory.", Group.HARDWARE, least=0.0, most=1.0),
]
MaxLoras = Annotated[
    int,
    Field(
        "Low-rank adapters that are resident, equally popular; every request uses one. 0: none.",
        Group.HARDWARE,
        least=0,
        most=MOST_ADAPTERS,
    ),
]
MaxLoraRank = Annotated[
    int,
    Field("Rank of the adapters and of their slots.", Group.HARDWARE, least=1, most=MOST_RANK),
]
SplitVerify = Annotated[
    bool | None,
    Field(
        "Attention splits the cache in verify passes.",
        Group.HARDWARE,
        spelled="--split-verify/--no-split-verify",
    ),
]
Fidelity = Annotated[str, Field("measured, calibrated or datasheet.", Group.HARDWARE)]
Overrides = Annotated[
    list[str] | None,
    Field(
        "Override a device's number: device.KEY=VALUE in SI units.",
        Group.HARDWARE,
        spelled="--set",
    ),
]
Dtype = Annotated[
    str | None,
    Field(
        (
            "Weight format or recipe, in any case: bf16, fp16, fp32, fp8, fp8-block, int8, int4,"
            " fp4, awq, gptq, w4a16, w8a8, w8a16, nvfp4, mxfp4; in groups: int4-g128; of GGUF:"
            " q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k and mixes such as q4_k_m;"
            " part by part: bf16/experts=int4-g32. Default: that of the published checkpoint."
        ),
        Group.FORMATS,
        control=Control(
            "Weight format",
            "Number format of the weights; as published: the one that the checkpoint is stored in.",
            empty="as published",
        ),
    ),
]
KvDtype = Annotated[
    str | None,
    Field(
        "KV-cache format: bf16, fp16, fp8, int8, fp32.",
        Group.FORMATS,
        control=Control("Cache format", "Number format of the key-value cache.", empty="16 bits"),
    ),
]
DraftDtype = Annotated[
    str | None,
    Field(
        (
            "Weight format of the draft model or head, as --dtype. Default: 16 bits, or that of the"
            " drafter's own published checkpoint."
        ),
        Group.FORMATS,
        control=Control(
            "Drafter's weight format",
            "Number format of the weights of a draft model or head, which are published in 16 bits as a rule.",
            empty="16 bits, or as published",
        ),
    ),
]
MethodOrTraces = Annotated[
    str,
    Field(
        (
            "Method slug (`rooftree methods`) or TOML file of your own; default: the trace's, else"
            " speculative decoding."
        ),
        Group.DRAFTING,
        reads=MethodName(),
        names="methods",
        control=Control(
            "Drafting method",
            (
                "How drafts are made. Left open, the drafters that exist for the model compete: one"
                " trained head, one draft model and n-gram look-ups, as far as acceptance of them"
                " was published."
            ),
            empty="all published for the model",
        ),
    ),
]
Trace = Annotated[
    Path | None,
    Field(
        "Acceptance trace: a recording to replay, or an engine's counters.",
        Group.DRAFTING,
        control=Control(
            "Recording",
            "What a real drafter proposed and its target kept, position by position; it is replayed.",
        ),
    ),
]
Acceptance = Annotated[
    tuple[float, ...] | None,
    Field(
        (
            "Instead of a trace: one rate of a token given those before it (0.72), or the share of"
            " steps in which each position was accepted (0.78,0.61,0.48), as engines print it."
        ),
        Group.DRAFTING,
        reads=Rates(),
        control=Control(
            "Acceptance rate of a draft token",
            "Chance that a draft token is kept, given that those before it were; the same for all.",
            most=1,
            step=0.01,
        ),
    ),
]
TokensPerStep = Annotated[
    float | None,
    Field(
        (
            "Or the tokens that a step emits, the bonus token counted, at the longest of"
            " --draft-tokens; without K, for the method's own shape."
        ),
        Group.DRAFTING,
    ),
]
Drafters = Annotated[
    list[str] | None,
    Field(
        (
            "METHOD[:SOURCE], METHOD being a slug, a TOML file or a draft model (llama-3.2-1b), SOURCE a"
            " rate, rates by position, length=2.4 (tokens per step; length=2.4@3 at K=3), a trace, or a data set of"
            " published figures (mtbench); without SOURCE, the published figure that suits the model"
            " best. Where one drafter is asked for, off decodes without."
        ),
        Group.DRAFTING,
    ),
]
MatchRate = Annotated[
    float | None,
    Field(
        "Share of steps in which an n-gram drafter proposes, where a trace does not tell.",
        Group.DRAFTING,
        reads=Share(),
    ),
]
DraftShapes = Annotated[
    str | None,
    Field(
        (
            "What a step drafts, as every table prints it; several by commas: off, chain:5,"
            " chains:2x4, tree:16 (built from the recording; tree:FILE reads one), dynamic:60x6"
            " (draft tokens x depth, chosen anew at every step; then :width=4, :beam=4,"
            " :least=0.02, or :cost=0.004:free=32 for as many nodes as pay), prompted:48, own (the"
            " method's). +probability:0.6 ends drafts early, as --stop does."
        ),
        Group.DRAFTING,
        names="shapes",
    ),
]
_LENGTHS = Field(
    "Draft tokens K, comma-separated; 0: nothing is drafted.",
    Group.DRAFTING,
    reads=WholeNumbers(least=0, most=MOST_DRAFT_TOKENS),
    control=Control(
        "Draft tokens K",
        "Tokens drafted per request and step.",
        most=16,
        ticks=tuple(range(17)),
        empty="recommended",
    ),
)
DraftTokens = Annotated[tuple[int, ...] | None, _LENGTHS]
StatedDraftTokens = Annotated[tuple[int, ...], _LENGTHS]
TreeFile = Annotated[Path | None, Field("Tree JSON instead of --draft-tokens.", Group.DRAFTING)]
StopRule = Annotated[
    str,
    Field(
        (
            "When a draft ends before K: probability:0.6, product:0.5,least=1,most=8, ema or"
            " goodput; how much of it is verified: cost; a dynamic tree: gain:0.1."
        ),
        Group.DRAFTING,
    ),
]
Draft = Annotated[
    str | None,
    Field(
        "Draft model or head: shipped name or path of a config.json or .gguf.",
        Group.DRAFTING,
        control=Control(
            "Draft model",
            "The small model that drafts; it must share the target's vocabulary.",
            empty="choose one",
        ),
    ),
]
DraftPasses = Annotated[
    int | None,
    Field(
        (
            "Passes per step of a drafter of your own: the first whose acceptance is stated or"
            " recorded."
        ),
        Group.DRAFTING,
        least=1,
        control=Control(
            "Passes per step",
            (
                "Forward passes of your drafter before each verification: as many as it drafts"
                " tokens, or 1 where it drafts them at once."
            ),
            least=1,
            most=MOST_DRAFT_TOKENS,
        ),
    ),
]
DraftBytes = Annotated[
    float | None,
    Field(
        "Bytes that one of its passes reads, such as 3.5e8 or 350MB.",
        Group.DRAFTING,
        reads=Bytes(),
        control=Control(
            "Bytes that a pass reads",
            (
                "Such as 350MB: parameters times bytes of each. It makes the drafter one of your"
                " own, whose acceptance you state."
            ),
            empty="none of my own",
        ),
    ),
]
DraftName = Annotated[
    str | None,
    Field(
        "What it is called; default: own-drafter. --draft is its checkpoint.",
        Group.DRAFTING,
        control=Control("Its name", "What answers call your drafter.", empty="own-drafter"),
    ),
]
ExitLayer = Annotated[int | None, Field("Layers that an early-exit drafter runs.", Group.DRAFTING)]
Commit = Annotated[
    list[str] | None,
    Field(
        (
            "How a method that refines masked blocks commits tokens: RULE[:VALUES], such as"
            " threshold:0.8 or neighbours:confidence=0.9,tokens=4; `optimize` takes several values"
            " (threshold:0.7,0.8,0.9) and rules."
        ),
        Group.MASKED,
        control=Control("Commit rule", "Which masked tokens a pass fixes.", empty="recommended"),
    ),
]
Block = Annotated[
    tuple[int, ...] | None,
    Field(
        "Tokens of a masked block; several by commas for `optimize`.",
        Group.MASKED,
        reads=WholeNumbers(least=1, most=MOST_CANVAS_TOKENS),
        control=Control(
            "Block (tokens)",
            "Tokens that are refined together before the next ones begin.",
            most=4096,
            ticks=(0, 1, 2, 4, 8, 16, 32, 64, 128, 256),
            empty="recommended",
        ),
    ),
]
Cache = Annotated[
    str | None,
    Field(
        (
            "What later passes of a masked block read from a cache: none, prefix (all before the"
            " block) or dual (all around it); several by commas for `optimize`."
        ),
        Group.MASKED,
        control=Control(
            "Cache of the passes",
            "What later passes of a block do not compute again.",
            empty="recommended",
        ),
    ),
]
Canvas = Annotated[
    int | None,
    Field(
        "Tokens behind the prompt that are refined; default: as recorded.", Group.MASKED, least=1
    ),
]
Against = Annotated[
    str,
    Field(
        "Model whose plain decoding masked blocks are compared with, on the same devices; default:"
        " the same model, one token a pass.",
        Group.MASKED,
        names="models",
    ),
]
SloTtft = Annotated[
    Limit | None,
    Field(
        "Longest time to first token, ms: of the mean, or of a percentile as p99:800.",
        Group.LIMITS,
        spelled="--slo-ttft",
        reads=LatencyLimit(),
        control=Control(
            "Longest time to first token (ms, 0: none)",
            "A prompt of the context's length; beside others it also waits for the steps that are under way.",
            most=1e6,
        ),
    ),
]
SloTpot = Annotated[
    Limit | None,
    Field(
        "Longest time per output token, ms: of the mean, or of a percentile as p99:40.",
        Group.LIMITS,
        spelled="--slo-tpot",
        reads=LatencyLimit(),
        control=Control(
            "Longest time per output token (ms, 0: none)",
            "What misses it is marked, and the nearest configuration that meets it is offered.",
            most=1e5,
        ),
    ),
]
SloE2e = Annotated[
    Limit | None,
    Field(
        "Longest time of a whole request, from its arrival to its last token (E2E; `e2el` of vLLM's"
        " `--goodput`), ms: of the mean, or of a percentile as p99:9000.",
        Group.LIMITS,
        spelled="--slo-e2e",
        reads=LatencyLimit(),
        control=Control(
            "Longest time of a whole request (ms, 0: none)",
            "From its arrival to its last token, of requests of the load's lengths.",
            most=1e7,
        ),
    ),
]
Launch = Annotated[
    str,
    Field(
        "By whose scripts engines of a table were started and loaded, where a row has no `launch`:"
        " inferencex, inferencex-2026-03 (as they stood at the end of that month or day) or"
        " aiconfigurator; as-published: as known of who published each row; none: defaults.",
        Group.WORKLOAD,
    ),
]
Seed = Annotated[
    int,
    Field(
        "Seed of every random draw.",
        Group.RUN,
        least=0,
        control=Control("Seed", "Seed of every random draw.", most=2**31 - 1),
    ),
]
Out = Annotated[
    Path | None,
    Field("Folder for files; created where it is missing.", Group.OUTPUT, place="folder"),
]
Csv = Annotated[
    Path | None,
    Field(
        "File for the table's rows as comma-separated values, plain numbers.",
        Group.OUTPUT,
        place="file",
    ),
]
Json = Annotated[
    bool, Field("Print one JSON object instead of tables.", Group.OUTPUT, spelled="--json")
]
Quiet = Annotated[bool, Field("No progress and no tables, only errors.", Group.OUTPUT)]
