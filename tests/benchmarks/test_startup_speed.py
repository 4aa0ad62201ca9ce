"""How long `rooftree --help` takes, against importing numpy alone, by turns in the same run; and to
load a file."""

import os
import statistics
import subprocess
import sys
import time

from costmodel.architectures import library
from hardware_profiles import loader
from hardware_profiles.loader import DATA

ROUNDS = 11
MOST_RATIO, MOST_LOAD_MS = 3.0, 30.0
MOST_CPU_S = {"predict": 0.9, "optimize": 1.3, "tree": 0.7}
QUESTIONS = {
    "predict": (
        "predict --model llama-3.1-8b --method eagle-3 --acceptance 0.7 --batch 1,8,64,256 "
        "--context 1024,2048,4096,8192"
    ),
    "optimize": "optimize",
    "tree": "tree --acceptance 0.8,0.6,0.4",
}
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
    cpu_s = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return wall_s, cpu_s


def by_turns():
    """Median wall and CPU seconds of every command; the first round, which fills the disk cache, is
    left out."""
    rounds = [
        {name: spent(command) for name, command in COMMANDS.items()} for _ in range(ROUNDS + 1)
    ][1:]
    return {
        name: [statistics.median(r[name][i] for r in rounds) for i in (0, 1)] for name in COMMANDS
    }


def test_help_beside_numpy(benchmark, aim):
    medians = benchmark.pedantic(by_turns, rounds=1)
    walls = {name: wall_s for name, (wall_s, _) in medians.items()}
    shown = (
        f"{name} {wall_s * 1e3:.0f} ms ({cpu_s * 1e3:.0f} ms CPU)"
        for name, (wall_s, cpu_s) in medians.items()
    )
    print(
        f"\n{', '.join(shown)}; help takes {walls['help'] / walls['numpy']:.2f} times numpy's"
        " import"
    )
    aim(
        "slower help, in imports of numpy",
        max(walls["help"], walls["verb"]) / walls["numpy"],
        most=MOST_RATIO,
    )


def test_a_device_and_a_model_load_quickly(benchmark, cpu_s, aim):
    def model():
        library._shipped.cache_clear()
        library.load_model("meta-llama/Llama-3.1-8B-Instruct")

    def device():
        loader._read(DATA / "l4.toml")

    benchmark.pedantic(model, rounds=1)
    print()
    aim("ms of CPU time for a device", 1e3 * cpu_s(device), most=MOST_LOAD_MS)
    aim("ms of CPU time for a model", 1e3 * cpu_s(model), most=MOST_LOAD_MS)


def test_small_questions_beside_a_compiler(benchmark, aim, tmp_path):
    """CPU seconds of whole commands, by turns with what importing numba and scipy's optimisers
    alone takes."""
    answer = "import sys; from app.cli.main import main; sys.exit(main(sys.argv[1:]))"
    commands = {
        name: [
            sys.executable,
            "-c",
            answer,
            *words.split(),
            "--quiet",
            "--out",
            str(tmp_path / name),
        ]
        for name, words in QUESTIONS.items()
    }
    commands["compiler"] = [sys.executable, "-c", "import numba, scipy.optimize"]
    rounds = [{name: spent(command)[1] for name, command in commands.items()} for _ in range(6)][1:]
    cpu_s = {name: statistics.median(each[name] for each in rounds) for name in commands}
    benchmark.pedantic(lambda: spent(commands["tree"]), rounds=1)
    print()
    for name in QUESTIONS:
        print(
            f"{name}: {cpu_s[name]:.2f} CPU s, {cpu_s[name] / cpu_s['compiler']:.2f} imports of"
            " numba and scipy"
        )
        aim(f"CPU seconds of `{name}`", cpu_s[name], most=MOST_CPU_S[name])
