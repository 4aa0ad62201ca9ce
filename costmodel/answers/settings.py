"""How does a configuration of names become a setting that can be costed?

Resolves model, device, method, engine and precision, applies defaults, and checks that they go
together.
"""

from dataclasses import fields, replace
from pathlib import Path

from costmodel.answers.estimate import Setting
from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model, stated_head
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.checkpoint import loads
from costmodel.drafters.drafter import Drafter, build_drafter, custom_drafter
from costmodel.drafters.formats import drafter_kv_bytes_per_token
from costmodel.engine_library import engine_names, load_engine
from costmodel.engines.record.engine import Engine
from costmodel.engines.record.options import Drafting
from costmodel.engines.record.overhead import Overhead
from costmodel.laws.refined_method import method_policy, refined_method
from costmodel.method import Method
from costmodel.method_library import (
    is_method_file,
    load_method,
    method_names,
    named_transforms,
    published_names,
    require_priced,
)
from costmodel.parallel.plan import plan_of
from costmodel.passes.adapters import Adapters
from costmodel.passes.formats import PLAIN, SIXTEEN_BITS, recipe_parts
from costmodel.passes.forward import Deployment
from costmodel.passes.memory import kv_bytes
from costmodel.passes.precision import Precision, precision
from costmodel.passes.transform import apply
from costmodel.transforms.declared import Transform
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from traces.kinds.acceptance import AcceptanceTrace


def build_setting(configuration: DecodingConfiguration) -> Setting:
    """The setting that a configuration names.

    Args:
        configuration: model, device, method and formats by name; what it drafts in a step does not
            matter here.

    Raises:
        InputError: an unknown name (the nearest are offered), options that exclude each other, or a
            plan that does not divide the model.
    """
    method = configured_method(configuration)
    require_priced(method)
    names = _with_options(configuration.deployment, method)
    target = load_model(names.model)
    if target.decodes_blocks and method.drafts and method.refine is None:
        rule = (
            f"drafts what a causal model verifies, and {target.called} decodes masked blocks: name a"
            " method that refines them, such as fast-dllm"
        )
        raise InputError(rule, key="method", value=method.slug)
    device = load_device(names.device, names.overrides)
    if names.fidelity == "measured" and names.device.casefold().endswith(".toml"):
        from costmodel.passes.measured import add_results  # which reads tables

        add_results(
            Path(names.device).parent
        )  # passes that were measured lie beside the profile made of them
    engine = load_engine(names.engine).on(device)
    split = engine.splits_verify(device) if names.split_verify is None else names.split_verify
    eager = not engine.kernels.graphs and device.kind != "cpu"  # a CPU is its own host
    deployment = Deployment(
        architecture=target,
        device=device,
        precision=_precision(names, target, device, engine),
        tensor_parallel=names.tensor_parallel,
        fidelity=names.fidelity,
        split_verify=split,
        graphs=engine.kernels.graphs,
        host_layer_s=(
            engine.host.eager_s(target, device.constants.host.layer_s) / target.layers
            if eager
            else 0.0
        ),
        host_pass_s=engine.host.pass_s if eager else 0.0,
        shared_prefix_tokens=names.shared_prefix_tokens,
        host_weights_ratio=names.host_weights_ratio,
        adapters=_adapters(names),
    )
    deployment = engine.running(deployment)
    own = (method.slug,) if method.target and method.slug not in names.transforms else ()
    chosen = (*own, *names.transforms)
    plan = plan_of(names)
    if plan is not None:
        plan.check(target)
    deployment = apply(deployment, named_transforms(chosen))
    drafter = _drafter(
        configuration, method, deployment, named_transforms(chosen, reach_drafter=True)
    )
    drafter = engine.drafting(drafter)
    if names.cache_tokens is not None:
        engine = _holding(engine, names, deployment, drafter)
    return Setting(
        deployment=deployment,
        drafter=drafter,
        overhead=_with_host(engine.overhead(method.drafted_by), method),
        plain_overhead=_with_host(engine.overhead("none"), method),
        engine=engine,
        plan=plan,
    )


def _adapters(names: DeploymentNames) -> Adapters | None:
    """The adapters of a deployment; None where there is none.

    Raises:
        InputError: numbers out of range, or a plan beyond one tensor-parallel group.
    """
    if not names.max_loras:
        return None
    if plan_of(names) is not None:
        rule = "are priced on one tensor-parallel group; leave out other kinds of parallelism"
        raise InputError(rule, key="deployment.max_loras", value=names.max_loras)
    return Adapters(count=names.max_loras, rank=names.max_lora_rank)


def compared_with(setting: Setting, configuration: DecodingConfiguration, model: str) -> Setting:
    """A setting whose speeds are compared with another model, decoded token by token on the same
    devices.

    Args:
        setting: of the configuration.
        configuration: model, device, method and formats by name.
        model: the other one; empty: the setting stays as it is.

    Raises:
        InputError: a model that is unknown, or is not decoded token by token.

    Example:
        >>> masked = DecodingConfiguration(method="fast-dllm", deployment=DeploymentNames(model="llada-8b"))
        >>> other = compared_with(build_setting(masked), masked, "llama-3.1-8b").against
        >>> other.target.name, other.drafter.method.slug
        ('llama-3.1-8b', 'plain-decoding')
    """
    if not model:
        return setting
    deployment = replace(configuration.deployment, model=model)
    other = build_setting(DecodingConfiguration(deployment=deployment))
    if other.target.decodes_blocks:
        rule = "must be decoded token by token, and decodes masked blocks"
        raise InputError(rule, key="against", value=model)
    return replace(setting, against=other)


def configured_method(configuration: DecodingConfiguration) -> Method:
    """The entry that a configuration names, as it runs under the policy and on the canvas that it
    states.

    Raises:
        InputError: a method that no policy stands for, or blocks that do not divide the canvas.
    """
    method = load_method(configuration.method)
    policy, canvas = configuration.refine, configuration.canvas_tokens
    if policy is None and canvas is None:
        return method
    return refined_method(method, policy or method_policy(method), canvas_tokens=canvas)


def _with_host(overhead: Overhead, method: Method) -> Overhead:
    """An engine's overhead with the host work that a method adds to every step."""
    return replace(overhead, step_s=overhead.step_s + method.host_s) if method.host_s else overhead


def _with_options(names: DeploymentNames, method: Method) -> DeploymentNames:
    """The names with the options that a method stands for, where they have their defaults."""
    usual = {field.name: field.default for field in fields(DeploymentNames)}
    for key, value in method.deployment.items():
        if getattr(names, key) == usual[key]:
            names = replace(names, **{key: value})  # type: ignore[arg-type]
    return names


def _holding(engine: Engine, names: DeploymentNames, d: Deployment, drafter: Drafter) -> Engine:
    """An engine whose cache holds as many tokens as it stated, of the target and of a drafter that
    keeps a cache.

    Raises:
        InputError: a model that is spread beyond one tensor-parallel group.
    """
    if plan_of(names) is not None:
        rule = (
            "is known of one tensor-parallel group; leave out pipeline stages, data copies and"
            " spread experts"
        )
        raise InputError(rule, key="deployment.cache_tokens", value=names.cache_tokens)
    share = d.tensor_parallel
    one = {"batch": 1, "context": 1, "tensor_parallel": share, "page_tokens": 1, "states": 0}
    token_bytes = float(kv_bytes(d.architecture, d.precision, **one))
    token_bytes += drafter_kv_bytes_per_token(d, drafter, share)
    return replace(
        engine,
        memory=replace(engine.memory, stated_bytes=token_bytes * float(names.cache_tokens or 0)),
    )


def stated_method(text: str, *, key: str | None = None) -> str:
    """The slug of a method that a question names: by slug, as engines call it, or by the file that
    holds it.

    Args:
        text: the name, or the path of the file.
        key: that states it, for messages.

    Raises:
        UnknownNameError: there is none of that name; the nearest are offered.
        InputError: a file that holds no method.
    """
    if is_method_file(text):
        method = load_method(text)
        require_known_engines(method, text)
        return method.slug
    try:
        return method_of(text)
    except InputError:
        raise UnknownNameError("method", text, method_names(), key=key) from None


def require_known_engines(method: Method, file: str) -> None:
    """Refuse a method of a file that names engines which nobody knows.

    Raises:
        UnknownNameError: naming the first of them.
    """
    for name in method.engines:
        if name not in engine_names():
            raise UnknownNameError("engine", name, engine_names(), file=file, key="engines")


def method_of(trace_method: str) -> str:
    """The slug of a method that a trace names, by slug (with or without hyphens) or as engines call
    it (`draft_model`, `NEXTN`, `deepseek_mtp`).

    Raises:
        InputError: the trace names no method that is known; pass one explicitly.
    """
    name = trace_method.lower().replace("_", "-")
    if name in method_names():
        return name
    for slug in published_names():
        called = {name.replace("_", "-") for name in load_method(slug).engines.values()}
        if name in called or name == slug.replace("-", ""):
            return slug
    for spelled in (_option_names, _variant_names):
        for slug in published_names():
            if name in spelled(load_method(slug)):
                return slug
    if name.endswith("-mtp"):  # as vLLM named it after the model's family
        return "mtp"
    raise InputError(
        f"the trace names no known method; pass --method, one of {', '.join(method_names())}",
        key="method",
        value=trace_method or None,
    )


def _option_names(method: Method) -> set[str]:
    """What the engines' own options call a method, in lower case with hyphens."""
    return {_hyphened(drafting.name) for drafting in _options(method)}


def _variant_names(method: Method) -> set[str]:
    """The same of its variants."""
    return {_hyphened(name) for drafting in _options(method) for name in drafting.variants}


def _hyphened(name: str) -> str:
    return name.lower().replace("_", "-")


def _options(method: Method) -> list[Drafting]:
    """What the options of engines that know a method say of it."""
    known = (load_engine(engine).options for engine in method.engines)
    listed = zip(known, method.engines.values(), strict=True)
    return [
        options.drafting[called]
        for options, called in listed
        if options is not None and called in options.drafting
    ]


def with_match_rate(
    trace: AcceptanceTrace, method: str, match_rate: float | None
) -> AcceptanceTrace:
    """A trace whose missing proposals are stood in for by a stated share of steps.

    Only drafters that may propose nothing (n-gram) rest; for the others a match rate means nothing
    and is left out.

    Args:
        trace: level 1 or more.
        method: slug of the method it recorded.
        match_rate: share of steps with a proposal; None changes nothing.
    """
    rests = load_method(method).may_propose_nothing
    if match_rate is None or not rests or trace.drafted is not None:
        return trace
    return replace(trace, match_rate=match_rate)


def _precision(
    names: DeploymentNames, target: Architecture, device: Device, engine: Engine
) -> Precision:
    """Formats that are asked for, or those of the published checkpoint as the engine loads it onto
    the device.

    Raises:
        UnknownNameError: an unknown format.
        InputError: a format without scales that is asked for and that the device does not compute
            in.
    """
    weights = names.dtype or target.dtype
    if names.dtype in PLAIN:
        device.peak(weights)  # a format that others stand in for is stated for its arithmetic
    if names.dtype is None and weights == "fp32" and not engine.keeps_fp32:
        weights = next((name for name in SIXTEEN_BITS if name in device.peak_flops_per_s), weights)
    return precision(weights, names.kv_dtype, model=target, device=device)


def _drafter(
    configuration: DecodingConfiguration,
    method: Method,
    d: Deployment,
    transforms: tuple[Transform, ...],
) -> Drafter:
    draft_dtype = configuration.deployment.draft_dtype
    if draft_dtype is not None:
        recipe_parts(
            draft_dtype, d.architecture
        )  # an unknown format is refused before anything is computed
    if configuration.draft_passes is not None and configuration.draft_bytes is not None:
        return custom_drafter(
            method,
            d.architecture,
            name=str(configuration.own_drafter),
            passes=configuration.draft_passes,
            bytes_read=configuration.draft_bytes,
            weight_bytes=precision(
                draft_dtype or d.precision.wide, model=d.architecture
            ).weight_bytes,
            dtype=draft_dtype,
        )
    name = configuration.draft_model
    if name is not None and not method.drafts_with_weights:
        raise InputError(
            f"{method.slug} drafts without a model of its own", key="draft", value=name
        )
    if name is not None and not loads(method.slug, name):
        rule = (
            f"is a whole model, and {method.slug} drafts with a head that was trained for its"
            " target"
        )
        raise InputError(rule, key="draft", value=name)
    draft = load_model(name) if name and method.needs_draft_model else None
    # a head's price follows from the target, and from the shapes that a config of its own states
    head = stated_head(name) if name and not method.needs_draft_model else None
    return build_drafter(
        method,
        d.architecture,
        draft=draft,
        head=head,
        exit_layer=configuration.exit_layers,
        transforms=transforms,
        dtype=draft_dtype,
    )
