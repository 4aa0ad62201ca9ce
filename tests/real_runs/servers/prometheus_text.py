"""Counters as an engine would publish them."""

ENDS = (0.1, 0.5, 1.0)


def histogram(waits, name="vllm:time_to_first_token_seconds"):
    """The text of a histogram that took in these waits."""
    lines = [f"# TYPE {name} histogram"]
    lines += [
        f'{name}_bucket{{le="{end}",model_name="m"}} {sum(w <= end for w in waits)}' for end in ENDS
    ]
    lines += [f'{name}_bucket{{le="+Inf",model_name="m"}} {len(waits)}']
    return "\n".join(
        [
            *lines,
            f'{name}_sum{{model_name="m"}} {sum(waits)}',
            f'{name}_count{{model_name="m"}} {len(waits)}',
        ]
    )
