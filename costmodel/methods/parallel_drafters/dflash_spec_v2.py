"""DFlash under SGLang's second speculative engine: the host prepares a step while the device runs the
one before.
"""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="dflash-spec-v2",
    title="DFlash with overlapped scheduling",
    citation=Citation(
        authors="Z Lab, Modal, SGLang",
        title="The next generation of speculative decoding: DFlash and Spec V2",
        year=2026,
        url="https://lmsys.org/blog/2026-06-15-next-generation-speculative-decoding-dflash-v2/",
    ),
    group="parallel drafters",
    read="paper",
    asked_as=(
        "ask for dflash with --engine sglang, whose record overlaps the host with the device; other"
        " engines' records say what their host adds to a step"
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=4.0,
            source="lm-sys.github.io@1224d00, blog/2026-06-15-next-generation-speculative-decoding-dflash-v2",
            model="qwen3.5-397b-a17b",
            device="b200-sxm",
            devices=8,
            dtype="bf16",
            batch=1,
            temperature=0.0,
            data="HumanEval",
            note="blocks of 16",
        ),
        Reported(
            quantity="speedup",
            value=1.33,
            source="lm-sys.github.io@1224d00, blog/2026-06-15-next-generation-speculative-decoding-dflash-v2",
            model="qwen3-8b",
            device="b200-sxm",
            batch=32,
            relative_to="DFlash under the first engine",
            note="15.3 against 11.4 thousand tokens/s",
        ),
    ),
)
