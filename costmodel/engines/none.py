"""No engine: the passes alone, on the best kernels there are, with all of the memory."""

from costmodel.engines.record.engine import ANY, Engine, Kernels
from costmodel.engines.record.memory import Memory
from costmodel.engines.record.overhead import BARE

ENGINE = Engine(
    name="none",
    overheads={ANY: BARE},
    kernels=Kernels(source="no engine: the best kernel there is"),
    keeps_fp32=True,
    memory=Memory(
        group_bytes=0.0,
        pass_tokens=0,
        source="no engine: weights, cache and the pass at hand share all of the memory",
    ),
)
