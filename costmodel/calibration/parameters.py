"""Which constants does the form of each operation have, where may they lie, and where does a search
start?

Leaves out the search (`fit`).
"""

from dataclasses import dataclass

from costmodel.calibration.timing import VerifyForm
from costmodel.passes.ops import FEW_ROWS, LEAST_ROWS, MANY_ROWS
from hardware_profiles.units import MICRO


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One constant to fit, and where a search looks for it.

    Attributes:
        name: in the profile, such as `gemm.launch_s`.
        low: least value, in SI.
        high: largest value.
        start: where a search starts beside the profile's value.
    """

    name: str
    low: float
    high: float
    start: float


def _time(name: str, start_us: float, most_us: float) -> Parameter:
    return Parameter(name=name, low=0.0, high=most_us * MICRO, start=start_us * MICRO)


def _share(name: str, start: float) -> Parameter:
    return Parameter(name=name, low=0.05, high=1.5, start=start)


# Tables of experts end at 1,024 tokens, where arithmetic hardly shows, so that a fit to them alone
# may promise prompts more than any kernel reaches. Upper quartile of 16-bit arithmetic over 4-bit
# experts at 16,384 tokens on an H100 (52 shapes of at least 512 columns a device, median 0.32;
# aiconfigurator's performance database, commit 095f58a).
MOST_EXPERT_SHARE = 0.42


def _rounding(name: str, start: float = 0.5) -> Parameter:
    return Parameter(name=name, low=0.0, high=1.0, start=start)


def _norm(name: str, start: float = 3.0) -> Parameter:
    return Parameter(name=name, low=1.0, high=20.0, start=start)


GROUPS: dict[str, tuple[Parameter, ...]] = {
    "gemm": (
        _time("gemm.launch_s", 6, 60),
        _share("gemm.compute_efficiency", 0.85),
        _share("gemm.bandwidth_efficiency", 0.85),
        _share("gemm.output_efficiency", 0.7),
        _norm("gemm.norm"),
        Parameter(name="gemm.tile_ratio", low=0.0, high=5.0, start=0.2),
        _rounding("gemm.wave_ratio", 0.2),
        _rounding("gemm.fill_ratio", 0.2),
    ),
    "attention": (
        _time("attention.launch_s", 12, 60),
        _time("attention.wave_s", 2, 40),
        _time("attention.combine_s", 2, 30),
        _share("attention.bandwidth_efficiency", 0.8),
        _share("attention.compute_efficiency", 0.55),
        _time("attention.tile_s", 1.5, 10),
        _rounding("attention.wave_ratio"),
        _time("attention.short_wave_s", 0.2, 40),
        _time("attention.unit_s", 1.5, 40),
    ),
    "verify": (
        _time("verify.launch_s", 10, 60),
        _time("verify.wave_s", 5, 40),
        _time("verify.combine_s", 2, 30),
        _share("verify.bandwidth_efficiency", 0.8),
        _share("verify.compute_efficiency", 0.5),
        _time("verify.tile_s", 0.5, 10),
        _rounding("verify.wave_ratio"),
        Parameter(name="verify.mask_ratio", low=0.4, high=1.3, start=0.8),
    ),
    "unsplit": (
        _time("unsplit.launch_s", 3, 60),
        _time("unsplit.unit_s", 3, 40),
        _time("unsplit.tile_s", 1.4, 10),
        _rounding("unsplit.wave_ratio", 0.8),
        Parameter(name="unsplit.reread_ratio", low=0.0, high=10.0, start=1.0),
        _share("unsplit.bandwidth_efficiency", 0.8),
    ),
    "context": (
        _time("context.launch_s", 10, 60),
        _time("context.unit_s", 1, 40),
        _time("context.tile_s", 0.6, 10),
        _rounding("context.wave_ratio"),
        _share("context.bandwidth_efficiency", 0.6),
        _share("context.compute_efficiency", 0.6),
        _norm("context.norm"),
        _rounding("context.width_ratio"),
        Parameter(name="context.append_ratio", low=0.0, high=30.0, start=3.0),
    ),
    "mla": (
        _time("mla.launch_s", 12, 60),
        _share("mla.bandwidth_efficiency", 0.8),
        _share("mla.compute_efficiency", 0.6),
        _time("mla.tile_s", 3, 30),
        _norm("mla.norm", 2.0),
        Parameter(name="mla.pair_ratio", low=1.0, high=4.0, start=1.4),
        _time("mla.wave_s", 2, 20),
        Parameter(name="mla.reread_ratio", low=0.0, high=2.0, start=0.3),
    ),
    "moe": (
        _time("moe.launch_s", 35, 200),
        _time("moe.expert_s", 0.2, 10),
        _share("moe.bandwidth_efficiency", 0.9),
        Parameter(name="moe.compute_efficiency", low=0.05, high=MOST_EXPERT_SHARE, start=0.4),
        _norm("moe.norm", 1.5),
        Parameter(name="moe.unaligned_ratio", low=1.0, high=4.0, start=1.5),
    ),
    "allreduce": (
        _time("allreduce.launch_s", 4, 60),
        _time("allreduce.hop_s", 0.3, 30),
        _time("allreduce.two_shot_s", 5, 100),
        _share("allreduce.one_shot_efficiency", 0.55),
        _share("allreduce.two_shot_efficiency", 0.7),
    ),
    "eager": (_time("allreduce.eager_s", 25, 500),),
    "trtllm": (
        _time("trtllm.launch_s", 3, 60),
        _time("trtllm.hop_s", 0.3, 30),
        _time("trtllm.two_shot_s", 10, 100),
        _share("trtllm.one_shot_efficiency", 0.5),
        _share("trtllm.two_shot_efficiency", 0.6),
    ),
    "nccl": (
        _time("nccl.launch_s", 30, 500),
        _time("nccl.hop_s", 1, 50),
        _share("nccl.efficiency", 0.75),
    ),
}

# query rows of a block of prompt attention that a fit tries
CONTEXT_ROW_TILES = (64.0, 128.0, 256.0)
# rows of expert tiles that a fit tries: chosen by the load of an expert, and by the tokens
MOE_TILES = (
    {"moe.few_rows": LEAST_ROWS, "moe.many_rows": LEAST_ROWS},
    {"moe.few_rows": FEW_ROWS, "moe.many_rows": MANY_ROWS},
)
# thresholds that a fit tries, 256 KiB to 16 MiB
TRTLLM_MOST_BYTES = tuple(2.0**power for power in range(18, 25))


def group_of(operation: str, form: VerifyForm = "split") -> str:
    """The group of constants behind an operation other than the all-reduce, which has several.

    Args:
        operation: of a table.
        form: of `attention_verify`: whether the kernel splits the cache.
    """
    groups = {
        "gemm": "gemm",
        "attention_generation": "attention",
        "attention_context": "context",
        "attention_verify": "verify" if form == "split" else "unsplit",
        "mla_generation": "mla",
        "moe": "moe",
    }
    return groups[operation]
