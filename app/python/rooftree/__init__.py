"""The command line's questions, asked from Python: answers are tables in a notebook, and frames,
figures and files.

    import rooftree

    answer = rooftree.optimize(model="llama-3.1-8b", device="h100-sxm", batch=[1, 8, 64])
    answer                     # the tables of `rooftree optimize`
    answer.to_frame()          # one row per configuration
    answer.plot()              # speedup against batch
    answer.export("serving")   # the files that engines load

A question is a verb, and its keyword arguments are the verb's options, with underscores for dashes:
`rooftree optimize --slo-tpot 20` is `rooftree.optimize(slo_tpot=20)`, and `help(rooftree.optimize)`
lists them all. Lists stand where options take commas. Nothing is written to disk before it is asked
for. Leaves out the verbs that record, calibrate and validate, which work for minutes and keep
files; `load` and `observe` speak to a server that is running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardware_profiles.errors import InfeasibleError, InputError, RooftreeError
    from rooftree.answer import Answer
    from rooftree.questions import Option
    from rooftree.trace import Trace

__all__ = [
    "Answer",
    "InfeasibleError",
    "InputError",
    "RooftreeError",
    "Trace",
    "acceptance",
    "breakeven",
    "capacity",
    "export",
    "load",
    "load_trace",
    "observe",
    "optimize",
    "predict",
    "replay",
    "reproduce",
    "score",
    "simulate",
    "sweep",
    "trace_losses",
    "traces",
    "tree",
]

_ELSEWHERE = {
    "Answer": "rooftree.answer",
    "Trace": "rooftree.trace",
    "InputError": "hardware_profiles.errors",
    "InfeasibleError": "hardware_profiles.errors",
    "RooftreeError": "hardware_profiles.errors",
}


def optimize(
    *,
    model: Option = None,
    device: Option = None,
    engine: Option = None,
    trace: Option = None,
    batch: Option = None,
    context: Option = None,
    draft_tokens: Option = None,
    **options: Option,
) -> Answer:
    """Which configuration should I run?

    Args:
        model: target, a shipped name, a path of a config.json, or a list of them.
        device: shipped name or TOML file, or a list of them.
        engine: whose overheads apply.
        trace: recorded acceptance, as a path or from `load_trace`; None: the shipped recordings.
        batch: batch size or sizes.
        context: cached tokens per request, one number or several.
        draft_tokens: draft tokens K to compare.
        options: any other option of `rooftree optimize`, such as `slo_tpot`, `tp`, `acceptance` or
            `set`.

    Raises:
        InputError: an option that does not exist, or a value that makes no sense.
        InfeasibleError: nothing fits or meets the limits.
    """
    return _ask(
        "optimize",
        model=model,
        device=device,
        engine=engine,
        trace=trace,
        batch=batch,
        context=context,
        draft_tokens=draft_tokens,
        **options,
    )


def predict(
    *,
    model: Option = None,
    device: Option = None,
    engine: Option = None,
    trace: Option = None,
    acceptance: Option = None,
    batch: Option = None,
    context: Option = None,
    draft_tokens: Option = None,
    **options: Option,
) -> Answer:
    """How fast would these configurations be?

    Example:
        >>> answer = predict(model="llama-3.1-8b", method="eagle-3", acceptance=0.7, batch=[1, 64], draft_tokens=3)
        >>> [(row["batch"], row["speedup"] > 1) for row in answer["predictions"]]
        [(1, True), (64, True)]

    Args:
        model: target, a shipped name or a path of a config.json.
        device: shipped name or TOML file.
        engine: whose overheads apply.
        trace: recorded acceptance, as a path or from `load_trace`; either this, `acceptance` or
            `tokens_per_step`.
        acceptance: stated instead of recorded.
        batch: batch size or sizes.
        context: cached tokens per request, one number or several.
        draft_tokens: draft tokens K; 0 is plain decoding.
        options: any other option of `rooftree predict`, such as `tokens_per_step`, `dtype`, `tp` or
            `explain`.

    Raises:
        InputError: an option that does not exist, or a value that makes no sense.
        InfeasibleError: a configuration that does not fit the device.
    """
    return _ask(
        "predict",
        model=model,
        device=device,
        engine=engine,
        trace=trace,
        acceptance=acceptance,
        batch=batch,
        context=context,
        draft_tokens=draft_tokens,
        **options,
    )


def replay(
    trace: Option, *, draft_tokens: Option = None, tree: Option = None, **options: Option
) -> Answer:
    """How many tokens per step does a recording give?

    Args:
        trace: a path, or from `load_trace`.
        draft_tokens: draft tokens K of chains.
        tree: file or files of static trees.
        options: any other option of `rooftree replay`, such as `method`, `verifier`, `shape`
            or `stop`.

    Raises:
        InputError: an option that does not exist, or more than the recording tells.
    """
    return _ask("replay", trace, draft_tokens=draft_tokens, tree=tree, **options)


def reproduce(
    *names: Option, rows: Option = None, group: Option = None, **options: Option
) -> Answer:
    """What would the cost model have said of published numbers, from the inputs that stand beside
    them?

    Args:
        names: slugs of methods; none: all of them.
        rows: CSV file or files of published numbers; None: those that the catalogue reports.
        group: full, partial or headline: only rows of which so much is stated.
        options: any other option of `rooftree reproduce`, such as `html`.

    Returns:
        One row a number: predicted, published, and why where nothing is predicted.

    Raises:
        InputError: an option or a method that does not exist, or a file that is no table of
            published numbers.
    """
    return _ask("reproduce", *names, rows=rows, group=group, **options)


def score(*tables: Option, baseline: Option = None, **options: Option) -> Answer:
    """How far off are predictions from what I measured?

    Args:
        tables: files of measured serving runs.
        baseline: an earlier answer, or another tool's predictions by id, to stand beside.
        options: any other option of `rooftree score`, such as `plot`.

    Raises:
        InputError: an option that does not exist, or a file that holds no measured runs.
    """
    return _ask("score", *tables, baseline=baseline, **options)


def simulate(
    *,
    model: Option = None,
    device: Option = None,
    requests: Option = None,
    rate: Option = None,
    count: Option = None,
    prompt_tokens: Option = None,
    output_tokens: Option = None,
    trace: Option = None,
    draft_tokens: Option = None,
    **options: Option,
) -> Answer:
    """What do my users see under this traffic?

    Args:
        model: target, a shipped name or a path of a config.json.
        device: shipped name or TOML file.
        requests: recorded requests; or `rate`, `count`, `prompt_tokens` and `output_tokens`.
        rate: mean requests per second.
        count: requests.
        prompt_tokens: number or distribution, such as `lognormal:1000:1`.
        output_tokens: number or distribution of the tokens to generate.
        trace: recorded acceptance, as a path or from `load_trace`.
        draft_tokens: draft tokens K.
        options: any other option of `rooftree simulate`; `set={"scheduler.token_budget": 2048}`
            reaches every key.

    Raises:
        InputError: an option or a key that does not exist, or a value that makes no sense.
    """
    return _ask(
        "simulate",
        model=model,
        device=device,
        requests=requests,
        rate=rate,
        count=count,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        trace=trace,
        draft_tokens=draft_tokens,
        **options,
    )


def tree(
    acceptance: Option, *, nodes: Option = None, depth: Option = None, **options: Option
) -> Answer:
    """Which tree is best for this acceptance?

    Args:
        acceptance: file of a sibling vector, or a recorded trace.
        nodes: budgets of nodes, root included.
        depth: most levels, root included.
        options: any other option of `rooftree tree`, such as `held_out`.

    Raises:
        InputError: an option that does not exist, or a file that is neither.
    """
    return _ask("tree", acceptance=acceptance, nodes=nodes, depth=depth, **options)


def breakeven(
    *, model: Option, device: Option = None, method: Option = None, **options: Option
) -> Answer:
    """From which acceptance does drafting pay, up to which batch?

    Args:
        model: target, a shipped name or a path of a config.json.
        device: shipped name or TOML file.
        method: slug.
        options: any other option of `rooftree breakeven`, such as `acceptance`, `batch` or
            `draft_tokens`.

    Raises:
        InputError: an option that does not exist, or a value that makes no sense.
        InfeasibleError: no batch fits.
    """
    return _ask("breakeven", model=model, device=device, method=method, **options)


def capacity(
    *,
    model: Option,
    device: Option = None,
    rate: Option = None,
    prompt: Option = None,
    output: Option = None,
    **options: Option,
) -> Answer:
    """How many devices do I need, at what price?

    Args:
        model: target, a shipped name or a path of a config.json.
        device: shipped name or TOML file, or a list of them.
        rate: requests per second.
        prompt: mean prompt tokens.
        output: mean output tokens.
        options: any other option of `rooftree capacity`, such as `slo_tpot`, `requests` or `tp`.

    Raises:
        InputError: an option that does not exist, or a value that makes no sense.
        InfeasibleError: no plan meets the limits.
    """
    return _ask(
        "capacity", model=model, device=device, rate=rate, prompt=prompt, output=output, **options
    )


def sweep(
    file: Option = None, *, out: Option = None, compare: Option = None, **options: Option
) -> Answer:
    """What is the answer in every cell of these lists?

    Args:
        file: lists by key (models, devices, engines, tensor_parallel, drafters, traces, batches,
            contexts), as a dictionary or a YAML file.
        out: Parquet file, one row a cell.
        compare: two results of sweeps, old and new, instead of `file` and `out`.
        options: any other option of `rooftree sweep`: `resume`, `workers`, `threshold`, `csv` or
            `seed`.

    Returns:
        A summary; `.to_frame()` has the rows of the file, or of what moved.

    Raises:
        InputError: an option that does not exist, lists or files that make no sense.
    """
    from rooftree.questions import listed

    files = () if file is None else (listed(file),)
    return _ask("sweep", *files, out=out, compare=compare, **options)


def acceptance(*, method: Option = None, model: Option = None, **options: Option) -> Answer:
    """What was published about how many drafts a target keeps?

    Args:
        method: slug.
        model: target, a shipped name or a hub id.
        options: any other option of `rooftree acceptance list`, such as `data_set` or
            `temperature`.

    Returns:
        One row a figure, each with its source and place.

    Raises:
        InputError: an option that does not exist, or a name that nothing was published of.
    """
    return _ask("acceptance list", method=method, model=model, **options)


def traces(*, model: Option = None, method: Option = None, **options: Option) -> Answer:
    """Which recordings come with rooftree, and what do they tell?

    Example:
        >>> [row["tokens_per_step"].__round__(3) for row in traces(model="vicuna-7b", method="medusa")["traces"]]
        [2.565, 2.565]

    Args:
        model: target, a shipped name or a hub id.
        method: slug.
        options: any other option of `rooftree traces list`, such as `draft_tokens`.

    Returns:
        One row a recording: target, drafter, device, licence, level and tokens per step.

    Raises:
        InputError: an option that does not exist, or nothing that was recorded of that.
    """
    return _ask("traces list", model=model, method=method, **options)


def trace_losses(traces: Option = None, **options: Option) -> Answer:
    """What is lost where only the mean of a recording is known, or its rates by depth?

    Args:
        traces: one recording or several, as shipped names, paths or from `load_trace`; None: those
            that ship.
        options: any option of `rooftree traces losses`, such as `batch`, `context` or `device`.

    Returns:
        One row a recording, device and batch.

    Raises:
        InputError: an option that does not exist, or a recording that cannot be asked about.
    """
    return _ask("traces losses", files=traces, **options)


def export(engine: str, config: Option = None, **options: Option) -> Answer:
    """What does my engine load?

    Args:
        engine: vllm, sglang, tensorrt-llm, llama.cpp or transformers.
        config: an answer of `optimize`, its file, or the file of a configuration; or state one by
            options.
        options: any other option of `rooftree export`, such as `model`, `method`, `draft_tokens` or
            `batch`.

    Returns:
        The files' contents, the command and notes; `.export(folder)` writes the files.

    Raises:
        InputError: the engine cannot express the configuration.
    """
    return _ask("export", engine, config=config, **options)


def load(
    url: str, *, out: Option, rate: Option = None, users: Option = None, **options: Option
) -> Answer:
    """What do users of this live server see under a load?

    Args:
        url: address of a running vLLM, SGLang, TensorRT-LLM, llama.cpp or other server with
            OpenAI's interface.
        out: folder for the answers; with `resume=True` it goes on where it ended.
        rate: mean requests per second; or
        users: of a closed loop; or `requests`, a file of recorded ones.
        options: any other option of `rooftree load`, such as `count`, `prompt_tokens`,
            `output_tokens` or `prompts`.

    Raises:
        InputError: an option that does not exist, a server that is not reached or is lost, or
            requests that failed.
    """
    return _ask("load", url, out=out, rate=rate, users=users, **options)


def observe(url: str, *, duration: Option = None, **options: Option) -> Answer:
    """What do the counters of this live server say?

    Args:
        url: address of a running vLLM, SGLang, TensorRT-LLM or llama.cpp.
        duration: how long to watch, such as "60s"; `--for` of the command, a word that Python keeps
            for itself.
        options: any other option of `rooftree observe`: `every`, `out` or `model`.

    Raises:
        InputError: an option that does not exist, a server without counters, one that is lost or is
            restarted.
    """
    return _ask("observe", url, **{"for": duration}, **options)


def load_trace(*files: Option, **options: Option) -> Trace:
    """Open a recording, or import what an engine or a benchmark wrote.

    Args:
        files: a trace in Parquet, or one file that `rooftree traces import` knows; two scrapes of
            counters, before and after.
        options: any option of `rooftree traces import`, such as `model`, `method`, `match_rate`, or
            `out` for the Parquet file to keep.

    Returns:
        The trace, which goes wherever a question takes one.

    Raises:
        InputError: no trace, or a file that no importer knows.
    """
    from rooftree.trace import opened

    return opened(files, options)


def _ask(verb: str, *arguments: Option, **options: Option) -> Answer:
    from rooftree.answer import Answer
    from rooftree.questions import ask_verb

    return Answer(verb, ask_verb(verb, arguments, options))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("rooftree")
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'rooftree' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
