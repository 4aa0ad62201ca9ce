"""How far off was this model on configurations like the one asked about, where that was measured?

The scores of VALIDATION.md, with what each of them covers. Leaves out the interval of one prediction
(`costmodel.answers.uncertainty`) and how scores are made (`rooftree score`, `reproduce` and
`validate`).
"""

from dataclasses import dataclass

from hardware_profiles.profile import Device


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Errors of predictions beside what was measured.

    Args:
        on: what was measured.
        quantity: `speedup`, `tokens/s` or `time per token`.
        rows: measurements.
        median_ratio: median of the absolute errors.
        most_ratio: 90th percentile of them, or the largest, as `most_is` says.
        most_is: `nine in ten` or `all`, which are within `most_ratio`.
    """

    on: str
    quantity: str
    rows: int
    median_ratio: float
    most_ratio: float
    most_is: str = "nine in ten"

    @property
    def words(self) -> str:
        """In a sentence."""
        return (
            f"this model's {self.quantity} was {100 * self.median_ratio:.1f} % off in the median"
            f" and {self.most_is} within {100 * self.most_ratio:.1f} %, on {self.rows} {self.on}"
        )


VLLM_HOPPER = Score(
    on="published runs of EAGLE-3 and n-gram in vLLM on an H100, batch 1 to 128",
    quantity="speedup",
    rows=16,
    median_ratio=0.015,
    most_ratio=0.152,
    most_is="all",
)
PUBLISHED = Score(
    on="published measurements of many systems, devices and engines",
    quantity="speedup or time",
    rows=402,
    median_ratio=0.104,
    most_ratio=0.317,
)
LLAMA_CPP = Score(
    on="configurations of llama.cpp's server on one CPU thread",
    quantity="tokens/s",
    rows=84,
    median_ratio=0.042,
    most_ratio=0.120,
)
CPU = Score(
    on="configurations of five drafters run on one CPU",
    quantity="tokens/s",
    rows=82,
    median_ratio=0.022,
    most_ratio=0.068,
)
SCORES = (VLLM_HOPPER, PUBLISHED, LLAMA_CPP, CPU)


def score_like(device: Device, engine: str, method: str) -> Score:
    """The score on what is most like a configuration.

    Args:
        device: that it runs on.
        engine: under which engine.
        method: slug of what drafts; `plain-decoding` for nothing.
    """
    if device.kind == "cpu":
        return LLAMA_CPP if engine == "llama.cpp" else CPU
    if engine == "vllm" and device.name.startswith("h100") and method in ("eagle-3", "n-gram"):
        return VLLM_HOPPER
    return PUBLISHED
