"""How does a server of llama.cpp run in a process that ends with the one that started it?

Run as a module: `server_process PARENT CPU PROGRAM ARGUMENT...`. PROGRAM takes the place of this
process; where it is empty, the server that `xllamacpp` embeds runs here, until standard input
closes. Leaves out waiting for it (`launch`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

from hardware_profiles.errors import InputError
from real_runs.servers.llama_cpp.arguments import fill, read_arguments

_PR_SET_PDEATHSIG = 1


def main(words: Sequence[str]) -> int:
    """Run the server; its address is the last thing it writes before it answers.

    Args:
        words: the parent's process id, the CPU to stay on or nothing, the program or nothing, and
            its arguments.
    """
    parent, cpu, program, *arguments = words
    _end_with(int(parent))
    if cpu:
        os.sched_setaffinity(0, {int(cpu)})
    if program:
        os.execv(program, [program, *arguments])
    # optional: a program of one's own needs no library
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    try:
        fill(parameters, read_arguments(arguments))
        server = xllamacpp.Server(parameters)
    except (InputError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    # in one piece on a line of its own: the server's log is written from another thread
    os.write(sys.stderr.fileno(), f"\nserver is listening on {server.listening_address}\n".encode())
    sys.stdin.read()
    # nothing is worth saving, and the library's own end waits for answers that nobody reads
    os._exit(0)


def _end_with(parent: int) -> None:
    """Have the kernel kill this process, and whatever takes its place, when its parent dies; Linux
    alone can.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
