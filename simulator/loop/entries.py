"""Which functions of the loop does Python call?

Everything else is called by these alone, in machine code. Leaves out what they do: see the
functions themselves, which call each other directly.
"""

from __future__ import annotations

from simulator.loop import iteration, passes, ranks, service, stages
from simulator.loop.compiled import entry
from simulator.loop.scheduling import split

serve = entry(service.serve)
serve_in_turn = entry(stages.serve_in_turn)
serve_together = entry(ranks.serve_together)
start = entry(iteration.start)
arrive = entry(stages.arrive)

tabled_seconds = entry(passes.tabled_seconds)
part = entry(passes.part)
groups = entry(passes.groups)
group = entry(passes.group)
line_up = entry(split.line_up)
next_pass = entry(split.next_pass)
