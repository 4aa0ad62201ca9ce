"""How long `rooftree --help` takes, against importing numpy alone, by turns in the same run."""

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 11
MOST_RATIO = 3.0
HELP = "import sys; from app.cli.main import main; sys.exit(main(['--help']))"
COMMANDS = {
    "bare": [sys.executable, "-c", "pass"],
    "numpy": [sys.executable, "-c", "import numpy"],
    "help": [sys.executable, "-c", HELP],
    "verb": [sys.executable, "-c", HELP.replace("'--help'", "'optimize', '--help'")],
}


def spent(command):
    """Wall and CPU seconds of one process."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - start, os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return wall_s, cpu_s


def by_turns():
    """Median wall and CPU seconds of every command; the first round, which fills the disk cache, is left out."""
    rounds = [{name: spent(command) for name, command in COMMANDS.items()} for _ in range(ROUNDS + 1)][1:]
    return {name: [statistics.median(r[name][i] for r in rounds) for i in (0, 1)] for name in COMMANDS}


def test_help_starts_within_three_numpys(benchmark):
    medians = benchmark.pedantic(by_turns, rounds=1)
    walls = {name: wall_s for name, (wall_s, _) in medians.items()}
    shown = (f"{name} {wall_s * 1e3:.0f} ms ({cpu_s * 1e3:.0f} ms CPU)" for name, (wall_s, cpu_s) in medians.items())
    print(f"\n{', '.join(shown)}; help takes {walls['help'] / walls['numpy']:.2f} times numpy's import")
    assert walls["help"] <= MOST_RATIO * walls["numpy"]
    assert walls["verb"] <= MOST_RATIO * walls["numpy"]
