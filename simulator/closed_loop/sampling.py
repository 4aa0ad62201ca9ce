"""Does a load without sampling parameters of its own make an engine cut the distribution of the
next token?

NVIDIA's load generator sends none, and vLLM then takes those of the model's
`generation_config.json`; InferenceX asks for temperature 0. Leaves out what cutting costs
(`simulator.timing.engine_passes`).
"""

# Beginnings of names whose generation_config.json sets top_k or top_p below 1, as on Hugging Face:
# Qwen3 0.95 and 20, Qwen2.5 0.8 and 20, Llama 3 and its successors 0.9, DeepSeek-V3 and R1 0.95.
# Those of gpt-oss and Mixtral set neither.
_CUT = ("qwen2.5", "qwen3", "llama-3", "deepseek-v3", "deepseek-r1")


def cuts_by_default(model: str) -> bool:
    """Whether the model's own defaults ask for top-k or top-p.

    >>> cuts_by_default("qwen3-32b"), cuts_by_default("gpt-oss-120b")
    (True, False)
    """
    return model.casefold().startswith(_CUT)
