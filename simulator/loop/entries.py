"""Which functions of the loop does Python call?

Everything else is called by these alone, in machine code. Leaves out what they do: see the
functions themselves, which call each other directly.
"""

from __future__ import annotations

from simulator.loop import iteration, passes, ranks
from simulator.loop.compiled import entry
from simulator.loop.scheduling import split, waiting

advance = entry(iteration.advance)
begin = entry(iteration.begin)
start = entry(iteration.start)
settle = entry(iteration.settle)

advance_together = entry(ranks.advance_together)
begin_together = entry(ranks.begin_together)
start_together = entry(ranks.start_together)
settle_together = entry(ranks.settle_together)

tabled_seconds = entry(passes.tabled_seconds)
part = entry(passes.part)
groups = entry(passes.groups)
group = entry(passes.group)
line_up = entry(split.line_up)
next_pass = entry(split.next_pass)
receive_all = entry(waiting.receive_all)
