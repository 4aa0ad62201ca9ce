"""Errors of shipped constants on public tables of kernels, on the rows that they were not fitted
to."""

from pathlib import Path

from costmodel.calibration.calibrate import CalibrationScore, calibrate
from costmodel.calibration.tables import read_all
from hardware_profiles.loader import load_device

TABLES = {
    "h100-sxm": [
        "gemm_h100_sxm.csv",
        "attn_gen_bf16_h100_sxm.csv",
        "attn_ctx_bf16_h100_sxm.csv",
        "mla_gen_h100_sxm.csv",
        "moe_h100_sxm.csv",
        "allreduce_vllm_h100_sxm.csv",
        "allreduce_trtllm_h100_sxm.csv",
    ],
    "a100-sxm-80": [
        "gemm_a100_sxm.csv",
        "attn_gen_bf16_a100_sxm.csv",
        "attn_ctx_bf16_a100_sxm.csv",
        "mla_gen_a100_sxm.csv",
        "moe_a100_sxm.csv",
        "allreduce_vllm_a100_sxm.csv",
        "allreduce_trtllm_a100_sxm.csv",
    ],
    "b200-sxm": [
        "gemm_b200_sxm_quarter.csv",
        "attn_gen_bf16_b200_sxm_quarter.csv",
        "attn_ctx_bf16_b200_sxm_quarter.csv",
        "mla_gen_b200_sxm_quarter.csv",
        "moe_b200_sxm_quarter.csv",
    ],
    "a100-sxm-80--flashinfer": ["vidur_attention_a100_llama2-70b_tp2.parquet"],
    "rtx-pro-6000": ["rtxpro6000_llama3.1-8b_attention.parquet"],
}
SHARES = {"b200-sxm": 0.75}  # fitted to, of the rows at hand; of other tables a quarter
# formats beside 16 bits, and the tables that have them
NARROW = {
    ("b200-sxm", "fp8"): [
        "gemm_b200_sxm_quarter.csv",
        "mla_gen_b200_sxm_quarter.csv",
        "moe_b200_sxm_quarter.csv",
    ],
    ("b200-sxm", "fp4"): ["gemm_b200_sxm_quarter.csv"],
}


def reference_scores(folder: Path) -> dict[tuple[str, str], CalibrationScore]:
    """Scores by device and operation; an operation in another format than 16 bits names it.

    Args:
        folder: the reference data.
    """
    scores = {}
    read = [(name, "bf16", files) for name, files in TABLES.items()]
    read += [(name, dtype, files) for (name, dtype), files in NARROW.items()]
    for name, dtype, files in read:
        tables = read_all([folder / "kernels" / file for file in files])
        share = SHARES.get(name, 0.25)
        found = calibrate(tables, load_device(name), fit=False, dtype=dtype, share=share).scores
        for operation, score in found.items():
            for part, of_part in ((operation, score), *score.parts.items()):
                scores[name, part if dtype == "bf16" else f"{part} {dtype}"] = of_part
    return scores
