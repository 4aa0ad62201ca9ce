"""llama.cpp's server: one contiguous cache, no Python, one draft length for every batch size.

The project numbers builds, not releases, so there are two here: `new` for builds whose
`llama-server --help` lists `--spec-draft-n-max`, `old` for builds that list `--draft-max`.
"""

from functools import partial

from costmodel.engines.record.engine import ANY, Engine, Kernels, SchedulerDefaults
from costmodel.engines.record.memory import Memory
from costmodel.engines.record.options import Drafting, Options
from costmodel.engines.record.overhead import Overhead
from costmodel.engines.record.releases import Gate
from costmodel.scheduler import Scheduler
from hardware_profiles.units import GIB

_BOTH, _NEW = Gate(first="old"), Gate(first="new")
_drafting = partial(
    Drafting,
    static_tree="verifies one chain per request",
    dynamic_tree="verifies one chain per request",
    schedule="one draft length holds for every batch size",
    stop=_BOTH,
    # common/speculative.cpp, `draft`: it leaves the loop before the token is kept; builds of 2025
    # kept it
    unlikely_tokens=0,
    synthetic=Gate(first="new", why="newer builds have synthetic acceptance"),
)

ENGINE = Engine(
    name="llama.cpp",
    aliases=("llama_cpp", "llamacpp"),
    overheads={
        ANY: Overhead(
            engine="llama.cpp",
            versions="2026",
            step_s=0.2e-3,
            draft_s=0.1e-3,
            spread_ratio=0.6,
            source="ASSUMED: one thread without a Python scheduler",
        )
    },
    kernels=Kernels(
        source="ASSUMED: its kernels split the cache, and passes run from captured graphs"
    ),
    # common/speculative.cpp: the draft model's context computes every batch of the target's
    # (`process`), and then one token a pass (`draft`)
    follows_target=True,
    memory=Memory(
        unseen_bytes=0.5 * GIB,
        group_bytes=0.0,
        pass_tokens=512,
        source=(
            "ASSUMED: one contiguous cache, physical batches of 512 tokens, a driver context of"
            " half a GiB"
        ),
    ),
    scheduler_defaults=SchedulerDefaults(
        versions=(
            "server of October 2026; slots as numbers of --parallel state them, with"
            " --cont-batching, its default"
        ),
        large=Scheduler(
            token_budget=2048,
            max_requests=4,
            chunked_prefill=True,
            prefill_first=False,
            prefix_cache=True,
            overlapped_scheduling=False,
            numbered_slots=True,
            pass_tokens=512,
            equal_passes=True,
            drafts_within_output=True,
            reserve_ratio=1.0,
        ),
        source=(
            "tools/server/server-context.cpp: pre_decode (every decoding slot with its drafts, then"
            " prompts in the order of slots up to n_batch), get_available_slot (the slot left"
            " first), get_n_draft_max (at most what is left of the output less one);"
            " common/common.h: n_batch 2048, n_ubatch 512; common/arg.cpp: four slots where"
            " --parallel does not say; src/llama-kv-cache.cpp init_batch: split_equal, as"
            " --parallel N gives every slot a cache of its own (--kv-unified: equal_passes false)."
            " A slot reuses the longest common prefix of its latest prompt, and the host keeps"
            " others (--cache-ram 8192 MiB): prefixes are shared, without the similarity of 0.1 by"
            " which such a slot is preferred"
        ),
    ),
    options=Options(
        releases=("old", "new"),
        default="new",
        numbered=False,
        drafting={
            "draft_model": _drafting(name="draft-simple", releases=_BOTH),
            "ngram": _drafting(
                name="ngram-simple",
                releases=_BOTH,
                stop="cannot stop a draft on low confidence",
                variants={"ngram-mod": _NEW, "ngram-map-k": _NEW, "ngram-map-k4v": _NEW},
            ),
            "eagle3": _drafting(name="draft-eagle3", releases=_NEW),
            "mtp": _drafting(name="draft-mtp", releases=_NEW),
            "dflash": _drafting(name="draft-dflash", releases=_NEW),
        },
        without={},
        parallel=dict.fromkeys(
            ("tensor", "pipeline", "expert", "data", "context", "nodes"),
            "splits layers or rows over devices, which is not the parallelism that was priced",
        ),
        several_requests=_BOTH,
        source=(
            "the project's own documentation of speculative decoding on either side of the renaming"
            " of its flags"
        ),
    ),
)
