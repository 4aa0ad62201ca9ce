"""Hugging Face Transformers: eager Python between passes, assisted generation for one request at a
time.
"""

from functools import partial

from costmodel.engines.record.engine import ANY, Engine, Kernels
from costmodel.engines.record.host import Host
from costmodel.engines.record.memory import Memory
from costmodel.engines.record.options import Drafting, Options
from costmodel.engines.record.overhead import Overhead
from costmodel.engines.record.releases import Gate
from costmodel.passes.kernels.communication import Reductions
from hardware_profiles.units import GIB

_READ = Gate(first="5.23.0")
_drafting = partial(
    Drafting,
    releases=_READ,
    static_tree="verifies one chain",
    dynamic_tree="verifies one chain",
    schedule="assisted generation raises an error for more than one request at a time",
    stop=_READ,
    # generation/stopping_criteria.py, ConfidenceCriteria: asked once the token is appended
    unlikely_tokens=1,
    synthetic="has no synthetic acceptance",
)

ENGINE = Engine(
    name="transformers",
    overheads={
        ANY: Overhead(
            engine="transformers",
            versions="4-5",
            step_s=1.2e-3,
            draft_s=1.0e-3,
            spread_ratio=0.6,
            source=(
                "ASSUMED: the high end of the 0.2 to 1.2 ms seen over engines, eager Python between"
                " passes"
            ),
        )
    },
    kernels=Kernels(
        unsplit=(
            "a1",
            "a30",
            "a40",
            "a800",
            "b200",
            "b300",
            "dgx-spark",
            "gb",
            "gh",
            "h100",
            "h20",
            "h800",
            "jetson",
            "l20",
            "l4",
            "mi",
            "rtx",
            "t4",
            "v100",
        ),
        graphs=False,
        reductions=Reductions(
            backend="nccl",
            source=(
                "ASSUMED: tensor parallelism reduces through torch.distributed "
                "(transformers/integrations/tensor_parallel.py, not opened)"
            ),
        ),
        source=(
            "FlashAttention-2's variable-length kernel, which never splits the cache for more than"
            " one query token"
        ),
    ),
    host=Host(
        layer_ratio=1.63,
        pass_s=0.45e-3,
        source=(
            "operations that Transformers 5.23 dispatches for Llama with attention written out, 46"
            " a layer (40 with its fused attention) and 33 a pass beside them, of 13.5 us each as"
            " measured here on an H100's host (results/h100-80gb-hbm3, job launch-eager): 0.62 ms a"
            " layer over the profiles' 0.38 ms, 0.45 ms a pass"
        ),
    ),
    keeps_fp32=True,
    memory=Memory(
        unseen_bytes=1.0 * GIB,
        group_bytes=0.0,
        pass_tokens=0,
        source=(
            "ASSUMED: contiguous caches that grow with the text; a GiB for driver context and"
            " allocator gaps"
        ),
    ),
    options=Options(
        releases=("5.23.0",),
        default="5.23.0",
        drafting={
            "draft_model": _drafting(name="assistant"),
            "ngram": _drafting(name="prompt_lookup", stop="cannot stop a draft on low confidence"),
            "early_exit": _drafting(name="assistant_early_exit"),
        },
        without={"mtp": "mtp drafts as many tokens as the model has MTP layers"},
        parallel=dict.fromkeys(
            ("tensor", "pipeline", "expert", "data", "context", "nodes"),
            "the script written here runs one process on one device",
        ),
        several_requests="assisted generation raises an error for more than one request at a time",
        source=(
            "transformers/generation/configuration_utils.py and candidate_generator.py, read from"
            " its wheel"
        ),
    ),
)
