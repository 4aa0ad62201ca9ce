"""Which drafters does a question compare that names none?

Those that exist for the target or its family: one of each kind that engines load, at the acceptance
that was published of it, those that were recorded of the target on a GPU, and n-gram, which every
target can run. Our own recordings answer for the model that wrote them. Leaves out what a person names (`sources`).
"""

from dataclasses import replace

from costmodel.acceptance_library import best_match
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.drafters.checkpoint import brings_its_head
from costmodel.optimizers.drafters.named_drafters import known_source, published_source
from costmodel.optimizers.drafters.sources import Source, trace_source
from hardware_profiles.errors import InputError
from traces.library import default_traces, gpu_recordings, shipped_confidence, trace_name

DEFAULT_MODEL = "llama-3.1-8b"
PUBLISHED_METHODS = ("eagle-3", "mtp", "speculative-decoding")
LOOKUP = "n-gram"
SMALLEST_RATIO = 2.0
"""A target has at least so many times the parameters of a draft model that is offered for it."""


def default_drafters(question: DecodingConfiguration) -> tuple[DecodingConfiguration, list[Source]]:
    """The question with its model named, and the drafters that it compares.

    Example:
        >>> from costmodel.configuration import DeploymentNames
        >>> asked, drafters = default_drafters(DecodingConfiguration(deployment=DeploymentNames(model="")))
        >>> asked.deployment.model, [drafter.method for drafter in drafters]
        ('llama-3.1-8b', ['eagle-3', 'speculative-decoding', 'n-gram'])

    Args:
        question: the configuration; an empty model stands for `DEFAULT_MODEL`.

    Raises:
        InputError: the question describes a drafter, of which nothing says what is accepted; the
            model decodes masked blocks, for which nothing is drafted; or the installation has lost
            its recordings.
    """
    if question.own_drafter is not None:
        rule = (
            f"nothing says what is accepted of {question.own_drafter}: --acceptance,"
            " --tokens-per-step or --trace"
        )
        raise InputError(rule, key="draft_bytes", value=question.draft_bytes)
    model = question.deployment.model or DEFAULT_MODEL
    named = replace(question, deployment=replace(question.deployment, model=model))
    if decodes_blocks(model):
        searched = f"--method fast-dllm --trace {trace_name(shipped_confidence()[0])}"
        rule = (
            f"must be one that refines masked blocks, such as fast-dllm, since {model} decodes no"
            f" other way, beside a confidence trace: `rooftree optimize --model {model} {searched}`;"
            f" `rooftree predict --model {model} --method fast-dllm` answers without one, at"
            " published tokens per pass"
        )
        raise InputError(rule, key="method")
    return named, recorded_drafters() if _recorded_on(model) else known_drafters(model)


def recorded_drafters() -> list[Source]:
    """Those of our own recordings, whose positions let trees and stop rules be compared, too."""
    return [trace_source(path) for path in default_traces()]


def known_drafters(model: str) -> list[Source]:
    """Drafters that were recorded of a target on GPUs, trained ones with acceptance published on it
    or its family, one of each method, and n-gram.

    Layers of the target's own checkpoint are among them where that checkpoint holds some.

    How often n-gram finds its next tokens in the text depends on the text more than on the target,
    so its figure may be of any.

    Args:
        model: target, by name or path.
    """
    there = [method for method in PUBLISHED_METHODS if not brings_its_head(method, model)]
    matches = [(method, best_match(method, model)) for method in there]
    chains = [
        (method, match) for method, match in matches if match and match.entry.shape == "chain"
    ]
    near = [
        published_source(method, model) for method, match in chains if match.kinship != "borrowed"
    ]
    recorded = _recorded_on_gpus(model)
    return [
        *recorded,
        *(source for source in near if _small_enough(source, model)),
        known_source(LOOKUP, model),
    ]


def _recorded_on_gpus(model: str) -> list[Source]:
    """What shipped recordings of GPUs say of drafters of this very target."""
    methods = dict.fromkeys(run.method for run in gpu_recordings() if run.drafts)
    sources = [known_source(method, model) for method in methods if method != LOOKUP]
    return [one for one in sources if one.kind != "published" and not one.borrowed]


def _recorded_on(model: str) -> bool:
    """Whether our own recordings are of a model; their names begin with it."""
    try:
        own = f"{load_model(model).name}--"
    except InputError:
        return False
    return any(path.stem.startswith(own) for path in default_traces())


def decodes_blocks(model: str) -> bool:
    """Whether a name is of a model that decodes masked blocks, for which nothing is drafted."""
    try:
        return load_model(model).decodes_blocks
    except InputError:  # an unknown name is refused where it is read
        return False


def _small_enough(source: Source, model: str) -> bool:
    if source.draft_model is None or "/" in source.draft_model:
        return True
    try:
        return (
            load_model(model).parameters
            >= SMALLEST_RATIO * load_model(source.draft_model).parameters
        )
    except InputError:
        return True
