"""What does `record` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import KeyEnv, RequestKeys, Seed, Timeout
from app.questions.groups import RequestOptions, ScreenOptions
from app.questions.values import MethodName, Span
from real_runs.drafters.registry import drafter_names


@dataclass(frozen=True, kw_only=True)
class RecordQuestion(ScreenOptions, RequestOptions, Question):
    """Record acceptance traces from a real model.

    Drafters watch the model write and note what it would have accepted. With --server, a running
    vLLM, SGLang or llama.cpp answers a load, and the steps of its own drafts are recorded.

    Example: rooftree record --server http://127.0.0.1:8000 --method eagle-3 --out run
    """

    answered_by: ClassVar[str] = "app.answers.recordings.record"
    begins: ClassVar[tuple[str, ...]] = (
        "model",
        "prompts",
        "drafter",
        "temperature",
        "max_new_tokens",
        "server",
        "masked",
        "out",
        "resume",
    )
    out: Annotated[
        Path,
        Field("Folder for the traces; unfinished work is kept there too.", Group.OUTPUT),
    ]
    model: Annotated[
        Path | None,
        Field(
            (
                "A .gguf file or Hugging Face folder; of --server, one of its models. Default:"
                " SmolLM2-135M-Instruct; of --server, its first."
            ),
            Group.WORKLOAD,
        ),
    ] = None
    prompts: Annotated[
        Path | None,
        Field(
            (
                "TOML of a title and [[prompts]], each with id, kind and text; default: the shipped"
                " set."
            ),
            Group.WORKLOAD,
        ),
    ] = None
    prompts_per_kind: Annotated[int | None, Field("Only the first so many.", Group.WORKLOAD)] = None
    drafter: Annotated[
        list[str] | None,
        Field(
            (
                f"{', '.join(drafter_names())}, or all; repeat; default: prompt-lookup and"
                " suffix-automaton, which need no fit."
            ),
            Group.DRAFTING,
        ),
    ] = None
    temperature: Annotated[
        list[float] | None,
        Field("0 is greedy; repeat (default: 0 and 0.8; of --server: 0).", Group.WORKLOAD),
    ] = None
    level: Annotated[
        int, Field("2: ranks; 3: probabilities of both models too.", Group.DRAFTING)
    ] = 2
    candidates: Annotated[
        int, Field("Candidates with probabilities at level 3.", Group.DRAFTING)
    ] = 8
    expansion_nodes: Annotated[
        int,
        Field("Draft tokens of the tree kept at every position; 0: none.", Group.DRAFTING),
    ] = 0
    max_new_tokens: Annotated[int, Field("Longest answer.", Group.WORKLOAD)] = 160
    least_match: Annotated[
        int,
        Field("Shortest suffix that the suffix automaton drafts from.", Group.DRAFTING),
    ] = 2
    skipped_layers: Annotated[
        tuple[int, int] | None,
        Field("A,B: skip layers A to B-1; default: the middle.", Group.DRAFTING, reads=Span()),
    ] = None
    no_skip_bridge: Annotated[
        bool,
        Field("Nothing crosses the skipped layers but the states themselves.", Group.DRAFTING),
    ] = False
    draft_model: Annotated[
        Path | None,
        Field("A .gguf file or folder; default: one made out of the target.", Group.DRAFTING),
    ] = None
    recycling_nodes: Annotated[
        int,
        Field("Nodes of token recycling's tree, root included.", Group.DRAFTING),
    ] = 80
    head_steps: Annotated[
        int | None,
        Field("Training steps of heads and draft model; default: by kind.", Group.DRAFTING),
    ] = None
    exit_layer: Annotated[
        int | None,
        Field("Layers before the exit; default: a third.", Group.DRAFTING, least=1),
    ] = None
    dtype: Annotated[str, Field("float32 or bfloat16.", Group.FORMATS)] = "float32"
    device: Annotated[str, Field("Torch device.", Group.HARDWARE)] = "cpu"
    threads: Annotated[int | None, Field("CPU threads; default: all.", Group.HARDWARE)] = None
    server: Annotated[
        str | None,
        Field(
            (
                "Address of a vLLM, SGLang or llama.cpp server whose own drafts are recorded; with"
                " --lookup, of a llama.cpp server to record look-ups through, greedily."
            ),
            Group.HARDWARE,
        ),
    ] = None
    key_env: KeyEnv = None
    method: Annotated[
        str,
        Field(
            "Of --server: what drafts there, for the trace; default: as far as the server says.",
            Group.DRAFTING,
            reads=MethodName(),
            names="methods",
        ),
    ] = ""
    option: RequestKeys = None
    timeout: Timeout = 300.0
    engine: Annotated[
        str | None,
        Field("llama.cpp: start its server and record through it, greedily.", Group.HARDWARE),
    ] = None
    lookup: Annotated[
        list[str] | None,
        Field(
            "N:M of the server's ngram-simple: looked up, longest draft; repeat.", Group.WORKLOAD
        ),
    ] = None
    timed: Annotated[
        bool,
        Field(
            "Decode with every drafter too, and record the seconds of its steps.", Group.DRAFTING
        ),
    ] = False
    masked: Annotated[
        bool,
        Field(
            "Train a small masked-diffusion model and record how sure it is, by policy.",
            Group.MASKED,
        ),
    ] = False
    resume: Annotated[bool, Field("Go on with an unfinished recording.", Group.RUN)] = False
    seed: Seed = 0
