"""Do the fields of a method go together, whoever wrote it down?

What every entry of the catalogue and every file of a reader's own keeps to. Leaves out what a
network cannot be built for (`costmodel.drafters`), which engines there are, and whether fields move
a prediction.
"""

import re

from costmodel.method import Method
from hardware_profiles.errors import InputError, UnknownNameError

SLUG_PATTERN = r"[a-z0-9]+(?:[.-][a-z0-9]+)*"
MOST_SLUG_CHARACTERS = 80
DEPLOYMENT_OPTIONS = (
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "data_parallel",
    "context_parallel",
    "shared_prefix_tokens",
)
"""Fields of a deployment that a method may stand for."""
THRESHOLDS = {
    "typical": ("posterior_threshold", "entropy_factor"),
    "near_match": ("ratio",),
}
"""Thresholds by verify rule; the others have none."""


def require_slug(slug: str) -> None:
    """Refuse a name that no method can have.

    Raises:
        InputError: naming the rule.
    """
    usual = re.fullmatch(SLUG_PATTERN, slug) and len(slug) <= MOST_SLUG_CHARACTERS
    if not usual or slug.endswith(".toml"):
        raise InputError(
            "must be lower case letters and digits with dashes between", key="slug", value=slug
        )


def contradictions(method: Method) -> list[InputError]:
    """What is wrong with the fields of a method, taken together; empty where nothing is."""
    return [*_wrong_labels(method), *_wrong_pace(method), *_wrong_numbers(method)]


def _wrong_labels(method: Method) -> list[InputError]:
    wrong: list[InputError] = []
    try:
        require_slug(method.slug)
    except InputError as error:
        wrong.append(error)
    cited = method.citation
    if cited.arxiv and cited.url:
        wrong.append(InputError("excludes an arxiv number", key="citation.url", value=cited.url))
    if cited.arxiv and not re.fullmatch(r"\d{4}\.\d{4,5}", cited.arxiv):
        wrong.append(
            InputError("must be a number like 2503.01840", key="citation.arxiv", value=cited.arxiv)
        )
    for line in method.assumed:
        if ": " not in line:
            rule = "must name a field and the reason for its value, as FIELD: REASON"
            wrong.append(InputError(rule, key="assumed", value=line))
    for reported in method.reported:
        if not reported.value > 0:
            wrong.append(InputError("must be > 0", key="reported.value", value=reported.value))
    return wrong


def _wrong_pace(method: Method) -> list[InputError]:
    """Fields that say how text advances: drafts that are verified, masked blocks, or a pace of its
    own; or why nothing of it is priced.
    """
    shape, rule = method.shape.kind, method.verify.rule
    wrong: list[InputError] = []
    if method.drafts != (shape not in ("none", "block")):
        words = "names what `draft` is verified as, and needs one"
        if method.drafts:
            words = "must say what is verified together: a draft has a shape"
        wrong.append(InputError(words, key="shape.kind", value=shape))
    if method.drafts != (rule != "none"):
        words = "decides which draft tokens stay, and needs a `draft`"
        if method.drafts:
            words = "must say which draft tokens stay"
        wrong.append(InputError(words, key="verify.rule", value=rule))
    if (method.refine is not None) != (shape == "block"):
        wrong.append(InputError("`refine` and a block go together", key="shape.kind", value=shape))
    if method.has_own_pace and method.drafts:
        wrong.append(InputError("excludes `refine` and `advance`", key="draft"))
    reasons = [name for name in ("out_of_scope", "needs", "asked_as") if getattr(method, name)]
    if len(reasons) > 1:
        wrong.append(InputError(f"excludes {reasons[1]}", key=reasons[0]))
    executes = (
        method.drafts or method.has_own_pace or method.target or method.deployment or method.host_s
    )
    if executes and reasons:
        wrong.append(InputError("says why nothing is priced, beside what is", key=reasons[0]))
    if not executes and not reasons and method.slug != "plain-decoding":
        words = "states nothing that a prediction executes: `draft`, `refine`, `advance`, `target`"
        wrong.append(InputError(words, key="slug", value=method.slug))
    return wrong


def _wrong_numbers(method: Method) -> list[InputError]:
    thresholds = THRESHOLDS.get(method.verify.rule, ())
    wrong: list[InputError] = [
        InputError(
            f"is no threshold of {method.verify.rule}"
            + (f", which has {', '.join(thresholds)}" if thresholds else ", which has none"),
            key=f"verify.at.{name}",
        )
        for name in method.verify.at
        if name not in thresholds
    ]
    for name, count in method.deployment.items():
        if name not in DEPLOYMENT_OPTIONS:
            wrong.append(UnknownNameError("option", name, DEPLOYMENT_OPTIONS, key="deployment"))
        elif not 1 <= count <= 1 << 20:
            wrong.append(InputError("must be in 1..1048576", key=f"deployment.{name}", value=count))
    for place, stage in enumerate(method.stages):
        if place and stage.tokens < 1:
            rule = "a stage that drafts for another needs its draft tokens"
            wrong.append(InputError(rule, key=f"draft[{place}].tokens", value=stage.tokens))
        if not all(0.0 < width <= 64.0 for matrix in stage.matrices for width in matrix):
            rule = "holds hidden widths in (0, 64]"
            wrong.append(InputError(rule, key=f"draft[{place}].matrices", value=stage.matrices))
    return wrong
