"""Where does a page's number stand in the answer of its own command?

For every page that a command answers: each label of its figures with the attributes of the rows
of `--json` that it shows, written as pages write numbers; and what its headline must hold. Leaves
out asking (`test_own_command`).
"""

from app.dashboard.answers.serving import LONG_S
from app.dashboard.state import overrides
from app.render.charts.charts import digits, interval_words
from hardware_profiles.loader import load_device
from hardware_profiles.units import GIB, MILLI


def run_numbers(body, state):
    """Of `optimize`: the choice at the state's point, and who comes next."""
    (row,), (cell,) = body["choices"], body["cells"]
    drafts, after = row["topology"] != "off", cell["runner_up"]
    interval = interval_words(row["speedup_interval"], "×")
    numbers = {
        "Speculation": f"on: {row['drafter']}, {row['draft']}" if drafts else "off",
        "Gain (80 % interval)": f"{digits(row['speedup'])}× ({interval})" if drafts else "none",
        "Whole batch": f"{digits(row['tokens_per_s'])} tokens/s",
        "Time per token": f"{digits(row['tpot_s'] / MILLI)} ms",
        "Step": f"{digits(row['step_s'] / MILLI)} ms for {digits(row['tokens_per_step'])} tokens",
    }
    if after is not None and cell["lost_ratio"] is not None:
        named = after["drafter"] and f"{after['drafter']}, {after['draft']}"
        lost = f"loses {100 * cell['lost_ratio']:.0f} %"
        numbers["Runner-up"] = f"{named or 'plain decoding'}: {lost}"
    return numbers


def run_headline(body, state):
    """What to draft, where, and the gain."""
    (row,) = body["choices"]
    where = [f"batch {row['batch']:,}", f"context {row['context']:,}"]
    if row["topology"] == "off":
        return [*where, "without speculation"]
    interval = interval_words(row["speedup_interval"], "×")
    return [*where, row["drafter"], f"{digits(row['speedup'])}× ", interval]


def map_numbers(body, state):
    """Of `optimize` with the first drafter alone."""
    (row,) = body["choices"]
    memory = load_device(state.device, overrides(state)).memory_bytes
    return {
        "Best K": str(row["draft_tokens"]) if row["draft_tokens"] else "off",
        "Speedup": f"{digits(row['speedup'])}×",
        "Limited by": row["limit"],
        "Memory per device": f"{row['memory_bytes'] / GIB:.1f} of {memory / GIB:.1f} GiB",
    }


def map_headline(body, state):
    """What to draft, where, and the gain."""
    (row,) = body["choices"]
    where = f"batch {row['batch']:,} and context {row['context']:,}"
    if not row["draft_tokens"]:
        return [f"Leave {row['drafter'] or row['method']} off at {where}"]
    gain = f"{digits(row['speedup'])}×"
    return [f"At {where} draft {row['draft_tokens']} with {row['drafter']}: {gain}"]


def tree_numbers(body, state):
    """Of `tree`: the tree of the size, and its speed where it runs."""
    (tree,), (fastest,) = body["trees"], body["fastest"]
    (at_size,) = fastest["budget_trees"]
    plain = fastest["tokens_per_s"] / fastest["speedup"]
    return {
        "Tokens per step": digits(tree["tokens_per_step"]),
        "Whole batch": f"{digits(at_size['tokens_per_s'])} tokens/s",
        "Without drafting": f"{digits(plain)} tokens/s",
        "Levels": str(levels(tree["parents"])),
    }


def levels(parents):
    """Draft levels of a tree, whose root has no parent."""
    depths = [0]
    for parent in parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths)


def tree_headline(body, state):
    """The tree's size and speed, and where."""
    numbers, (tree,) = tree_numbers(body, state), body["trees"]
    return [
        f"{tree['nodes'] - 1} draft tokens as a tree of {numbers['Levels']} level",
        f"{numbers['Tokens per step']} tokens per step and {numbers['Whole batch']}",
        f"batch {state.batch:,}, context {state.context:,}: {tree_gain(body)}×",
    ]


def tree_gain(body):
    """The speed of the tree that is shown against that of no speculation."""
    (fastest,) = body["fastest"]
    (shown,) = fastest["budget_trees"]
    return digits(shown["tokens_per_s"] / fastest["tokens_per_s"] * fastest["speedup"])


def trace_numbers(body, state):
    """Of `replay`: what a chain of K emits."""
    return {"Tokens per step": digits(body["chains"][0]["tokens_per_step"])}


def trace_headline(body, state):
    """What it emits at which K."""
    return [f" {trace_numbers(body, state)['Tokens per step']} tokens per step with K = "]


def pair_numbers(body, state):
    """Of `traces compare`: both recordings over all prompts."""
    first, second = (row["tokens_per_step"] for row in body["rows"] if row["kind"] == "all")
    return {
        f"{state.trace}, tokens per step": digits(first),
        f"{state.other_trace}, tokens per step": digits(second),
    }


def pair_headline(body, state):
    """Who emits more, and both means."""
    first, second = (row["tokens_per_step"] for row in body["rows"] if row["kind"] == "all")
    names = {state.trace: first, state.other_trace: second}
    more = max(names, key=names.__getitem__)
    ratio = max(first, second) / min(first, second)
    return [
        f"{more} emits {digits(max(first, second))} tokens per step",
        digits(min(first, second)),
        f"{100 * (ratio - 1):.1f} % more",
    ]


def diffusion_numbers(body, state):
    """Of `predict` with a policy: its row, the other being that of the twin."""
    _, row = body["predictions"]
    low, high = row["tokens_per_step_interval"]
    spread = f" ({digits(low)}–{digits(high)})" if low < high else ""
    return {
        "Tokens per pass": f"{digits(row['tokens_per_step'])}{spread}",
        "Whole batch": f"{digits(row['tokens_per_s'])} tokens/s",
        "Against the autoregressive twin": f"{digits(row['speedup'])}×",
    }


def diffusion_headline(body, state):
    """The pace and the speed of the policy."""
    numbers, (_, row) = diffusion_numbers(body, state), body["predictions"]
    return [
        f"{digits(row['tokens_per_step'])} tokens a pass, {numbers['Whole batch']}",
        f"{numbers['Against the autoregressive twin']} the autoregressive twin at batch"
        f" {state.batch:,}",
    ]


def hardware_numbers(body, state):
    """Of `predict` at one point."""
    (row,) = body["predictions"]
    price = row["usd_per_million_tokens"]
    return {
        "Whole batch": f"{digits(row['tokens_per_s'])} tokens/s",
        "Time per token": f"{digits(1e3 * row['tpot_s'])} ms{kept_words(row, state)}",
        "Speedup of drafting": f"{digits(row['speedup'])}×",
        "Energy": f"{digits(row['joules_per_token'])} J per token",
        "Price": dollars(price),
    }


def kept_words(row, state):
    """Whether a limit of the time per token is kept; empty where there is none."""
    if not state.slo_tpot:
        return ""
    word = "within" if 1e3 * row["tpot_s"] <= state.slo_tpot else "misses"
    return f", {word} {state.slo_tpot:g} ms"


def dollars(price):
    """A price of tokens as pages say it."""
    return "no price known" if price is None else f"${digits(price)} per million tokens"


def hardware_headline(body, state):
    """The speed, where, and its limit."""
    (row,) = body["predictions"]
    return [
        f"{state.device}",
        f"{digits(row['tokens_per_s'])} tokens/s at batch {row['batch']:,}",
        f"limited by {row['limit']}",
    ]


def pareto_numbers(body, state):
    """Of `predict` at the point that is shown."""
    (row,) = body["predictions"]
    devices = (row.get("plan") or {"devices": body["inputs"]["tp"]})["devices"]
    return {
        "Per user": f"{digits(row['tokens_per_s'] / row['batch'])} tokens/s",
        "Per device": f"{digits(row['tokens_per_s'] / devices)} tokens/s",
        "Price": dollars(row["usd_per_million_tokens"]),
    }


def pareto_headline(body, state):
    """The point's paces, where it is the page's own and no limit is stated."""
    (row,) = body["predictions"]
    own = row.get("plan") is None and body["inputs"]["tp"] == state.tp
    if state.slo_tpot or not own or row["batch"] != state.batch:
        return []
    numbers = pareto_numbers(body, state)
    per_device = numbers["Per device"].removesuffix(" tokens/s")
    return [f"every user {numbers['Per user']} and every device {per_device}"]


def serving_numbers(body, state):
    """Of `simulate`: both cases at the asked rate, and the highest that each sustains."""
    (first, plain), rates = [at["metrics"] for at in body["load"]], body["highest_rates"]
    own, without = (sustained(row["rate_per_s"]) for row in rates)
    return {
        "Sustains": f"{own} ({without} without)",
        "TTFT p99": f"{wait(first['ttft_s']['p99'])} ({wait(plain['ttft_s']['p99'])} without)",
        "TPOT p99": f"{wait(first['tpot_s']['p99'])} ({wait(plain['tpot_s']['p99'])} without)",
        "Output": (
            f"{digits(first['tokens_per_s'])} tokens/s ({digits(plain['tokens_per_s'])} without)"
        ),
        "Goodput": (
            f"{digits(first['goodput_per_s'])} requests/s"
            f" ({digits(plain['goodput_per_s'])} without)"
        ),
    }


def sustained(rate):
    """A highest rate as the page says it."""
    return "no rate" if rate is None else f"{digits(rate)}/s"


def wait(seconds):
    """A time as the page says it."""
    if seconds is None:
        return "none finished"
    return f"{digits(seconds)} s" if seconds >= LONG_S else f"{digits(seconds / MILLI)} ms"


def serving_headline(body, state):
    """Whether it keeps up, and what both sustain."""
    own, without = (sustained(row["rate_per_s"]) for row in body["highest_rates"])
    overloaded = body["load"][0]["metrics"]["is_growing"]
    return [
        f"{digits(body['load'][0]['rate_per_s'])} requests/s",
        f"sustains {own}, and {without} without",
        *(["Overloaded"] if overloaded else []),
    ]


SHOWN = {
    "run": (run_numbers, run_headline),
    "map": (map_numbers, map_headline),
    "tree": (tree_numbers, tree_headline),
    "trace": (trace_numbers, trace_headline),
    "pair": (pair_numbers, pair_headline),
    "diffusion": (diffusion_numbers, diffusion_headline),
    "hardware": (hardware_numbers, hardware_headline),
    "pareto": (pareto_numbers, pareto_headline),
    "serving": (serving_numbers, serving_headline),
}
BESIDE = {
    "trace": {"Level", "Acceptance rate that fits", "Between kinds of prompts"},
    "pair": {"First over second (80 % interval)"},
    "diffusion": {"Agreement with one token a pass", "Passes of a canvas"},
    "hardware": {"Gain over acceptance", "Gain over bandwidth"},
    "pareto": {"Most per device at that pace"},
}
"""What a page says beside its command's answer, of its recording, of other points or as `breakeven`
does."""
