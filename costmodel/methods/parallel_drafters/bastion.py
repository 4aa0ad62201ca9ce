"""Bastion: a tree of a block drafter's marginals grows as long as a node brings more tokens a second
under a roofline of the verify pass, which is calibrated on the device.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="bastion",
    title="Bastion",
    citation=Citation(
        authors="Oh, Cao, Kim, Jung, Ahmad, Bae, Yun",
        title=(
            "Bastion: Budget-Aware Speculative Decoding with Tree-structured Block Diffusion"
            " Drafting"
        ),
        year=2026,
        arxiv="2605.29727",
    ),
    group="parallel drafters",
    read="code",
    draft=(Draft(by="head", layers=5, features=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=512, depth=15, cost_ratio=0.005, free_nodes=160),
    verify=Verify(rule="match"),
    systems=("Bastion",),
    reported=(
        Reported(
            quantity="speedup", value=6.61, source="arXiv:2605.29727, abstract", note="largest"
        ),
        Reported(
            quantity="speedup",
            value=1.39,
            source="README of kaist-ai-osi-lab/BASTION",
            model="qwen3-8b",
            device="a100-sxm-80",
            batch=1,
            temperature=0.0,
            relative_to="dflash",
            note="mean of eight benchmarks",
        ),
    ),
    assumed=(
        "draft: the drafters are DFlash's",
        "shape.nodes: 512; the code's limit of 8192 is never reached",
        (
            "shape.free_nodes: the ridge of an A100, 312 TFLOP/s over 1.94 TB/s, in rows of 16-bit"
            " weights; the code calibrates its roofline on the device, and takes 31 nodes anyway"
        ),
        (
            "shape.cost_ratio: of Qwen3-8B on an A100: 53 microseconds of arithmetic a row, over"
            " 10 ms for reading the weights and drafting"
        ),
    ),
)
