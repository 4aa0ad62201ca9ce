"""What does every control ask for? Shown beside its label; Markdown."""

HELP = {
    "model": (
        "A shipped model; or type a Hugging Face id, or a number of parameters such as `13b` for a"
        " dense model of usual shapes. A `config.json` of your own goes below."
    ),
    "batch": "Requests decoded together: what your engine reports as running requests.",
    "context": (
        "Tokens in the cache of each request, prompt and output so far; take the mean of your"
        " traffic."
    ),
    "device": (
        "What the model runs on. Devices that were not measured borrow constants, and answers"
        " say so."
    ),
    "tp": "Tensor parallel: every layer is split over so many devices, which act as one.",
    "engine": "Whose overheads, kernels and scheduler are assumed, and whose command is written.",
    "dtype": "Number format of the weights; as published: that of the checkpoint.",
    "kv_dtype": "Number format of the key-value cache.",
    "draft_dtype": (
        "Number format of the weights of a draft model or head, which are published in 16 bits as a"
        " rule."
    ),
    "method": (
        "How drafts are made. Left open, the drafters that exist for the model compete: one trained"
        " head, one draft model and n-gram look-ups, as far as acceptance of them was published."
    ),
    "known_by": (
        "How many drafts are kept decides the gain. Best is a recording or log of your own traffic;"
        " engines print rates by position."
    ),
    "acceptance_ratio": (
        "Chance that a draft token is kept, given that those before it were; the same for all."
    ),
    "rates": (
        "Share of steps in which draft position 1, 2, … was kept, as engines print it:"
        " 0.78,0.61,0.48."
    ),
    "trace": (
        "What a real drafter proposed and its target kept, position by position; it is replayed."
    ),
    "draft": "The small model that drafts; it must share the target's vocabulary.",
    "against": (
        "Further drafters, which compete with the first. Pick one, or type METHOD:SOURCE, where"
        " SOURCE is a rate, rates by position, `length=2.4@3` (tokens per step at K = 3) or a"
        " recording."
    ),
    "slo_tpot_ms": (
        "What misses it is marked, and the nearest configuration that meets it is offered."
    ),
    "slo_ttft_ms": (
        "A prompt of the context's length; beside others it also waits for the steps that are under"
        " way."
    ),
    "tree_nodes": "Drafts of a tree are verified together; a larger one keeps more and costs more.",
    "depth": "How many tokens deep the tree drafts, which is the most that a step can keep.",
    "draft_tokens": "Tokens drafted per request and step.",
    "other_trace": "Drawn beside the first.",
    "other_device": "Shown beside the first, as it is sold.",
    "bandwidth_ratio": "Memory bandwidth, which bounds small batches.",
    "peak_ratio": "Arithmetic rates, which bound large batches.",
    "memory_ratio": "Capacity, which bounds batch and context.",
    "link_ratio": "Rate between devices that share the model.",
    "price_ratio": "Of an hour of the device.",
    "rate": "Requests that arrive each second, on average, at random times.",
    "count": "More of them make the tail surer and the simulation longer.",
    "prompt_tokens": "Lengths vary around it (log-normal).",
    "output_tokens": "Lengths vary around it (exponential).",
    "commit": "Which masked tokens a pass fixes.",
    "threshold": "Lower commits more tokens a pass, with more mistakes.",
    "block": "Tokens that are refined together before the next ones begin.",
    "cache": "What later passes of a block do not compute again.",
    "agreement_ratio": "Share of positions with the token that one token a pass writes there.",
    "confidence": "What a real masked model was sure of, pass by pass.",
    "prompt": "Which of the recorded prompts is drawn.",
    "measured": "A machine and the day on which it was measured.",
}
