"""Which seeded defects do the fast, the whole and the slow suite find?

Every mutant is one change of text in a copy of the repository. Where the table names a test that
found it before, that test alone is run. If it no longer finds it, or there is no row, the tests
that mirror the changed file run first, then those of its folder, then those of the layers around
it, each until the first failure; a suite that finds nothing hands over to the next larger one. A
failure counts only if the same test passes in the unchanged copy. The table is written after every
answer; a row that is deleted from it is searched for anew, from the fast suite on.

    python tests/mutants/study.py --part scheduler
"""

import argparse
import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TABLE = HERE / "found.csv"
COLUMNS = ("part", "file", "defect", "suite", "test")
PARTS = ("cost_model", "replay", "scheduler", "exporters")
SUITES = {"fast": ("--fast",), "normal": (), "slow": ("-m", "slow")}
AROUND = {
    "cost_model": (
        "tests/costmodel",
        "tests/agreement",
        "tests/golden",
        "tests/simulator/timing",
        "tests/app/cli",
    ),
    "replay": ("tests/traces", "tests/costmodel/laws", "tests/agreement", "tests/golden"),
    "scheduler": ("tests/simulator", "tests/agreement", "tests/golden"),
    "exporters": ("tests/app/exporters", "tests/app/answers", "tests/app/cli"),
}
LIMIT_S = 1800  # of one run: a mutant that makes a loop endless is found by whoever waits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of text.

    Args:
        part: of the program; the name of the list that holds it.
        file: that is changed, from the root.
        defect: what is wrong afterwards.
        old: text that stands in the file once.
        new: what takes its place.
    """

    part: str
    file: str
    defect: str
    old: str
    new: str

    def changed(self, text):
        """The file's text with the defect; None where it no longer stands there once."""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


def mutants(part):
    """The mutants of a part, as `<part>.toml` lists them."""
    listed = tomllib.loads((HERE / f"{part}.toml").read_text(encoding="utf-8"))["mutant"]
    return [Mutant(part=part, **each) for each in listed]


def copy_to(folder):
    """Copy what git tracks, and what it would, into a folder."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def places(mutant, root=ROOT):
    """Where to look for a failure: files of tests that mirror the changed one, their folder, the
    layers around it."""
    folder = Path("tests") / Path(mutant.file).parent
    while not (root / folder).is_dir():
        folder = folder.parent
    own = [
        str(path.relative_to(root))
        for path in (root / folder).rglob(f"test_{Path(mutant.file).stem}*.py")
    ]
    around = [each for each in AROUND[mutant.part] if each != str(folder)]
    return [each for each in (own, [str(folder)], around) if each]


class Copy:
    """A copy of the repository in which one file at a time is wrong."""

    def __init__(self, folder):
        self.folder, self.writes = folder, 0
        self.environment = os.environ | {
            "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'app' / 'python'}",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "",
            "ROOFTREE_REFERENCE_DATA": str(ROOT.parent / "shared" / "data"),
        }
        self.environment |= {
            name: value for name, value in os.environ.items() if name == "ROOFTREE_REFERENCE_DATA"
        }

    def write(self, file, text):
        """Write a file with a time of its own, so that nothing compiled from another text is taken
        for it."""
        self.writes += 1
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        at = time.time() + 2.0 * self.writes
        os.utime(path, (at, at))

    def failures(self, words, paths, *, most=1):
        """Names of tests that fail, no more than `most`; empty where all pass or none is there."""
        cache = self.folder / ".failed"
        shutil.rmtree(cache, ignore_errors=True)
        try:
            done = self._pytest([f"--maxfail={most}", "-o", f"cache_dir={cache}", *words, *paths])
        except subprocess.TimeoutExpired:
            return [f"none within {LIMIT_S} s"]
        kept = cache / "v" / "cache" / "lastfailed"
        names = list(json.loads(kept.read_text())) if kept.exists() else []
        if done.returncode not in (0, 5) and not names:
            raise SystemExit(
                f"pytest ended with {done.returncode} and no failure:\n{done.stdout}{done.stderr}"
            )
        return names

    def passes(self, words, names):
        """Whether tests pass now."""
        return self._pytest([*words, "-p", "no:cacheprovider", *names]).returncode == 0

    def _pytest(self, words):
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:randomly", *words]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def tried(self, mutant, known=None):
        """The smallest suite that finds a mutant, and the test that does.

        Args:
            mutant: to look for.
            known: an earlier answer whose test passes without the mutant; None where there is none.
        """
        whole = (ROOT / mutant.file).read_text(encoding="utf-8")
        if mutant.changed(whole) is None:
            return {"suite": "stale", "test": ""}
        if known and self._fails_with(mutant, whole, SUITES[known["suite"]], [known["test"]]):
            return {"suite": known["suite"], "test": known["test"]}
        for suite, words in SUITES.items():
            for paths in places(mutant, self.folder):
                names = self._fails_with(mutant, whole, words, paths)
                if names and (names[0].startswith("none within") or self.passes(words, names)):
                    return {"suite": suite, "test": names[0]}
        return {"suite": "none", "test": ""}

    def _fails_with(self, mutant, whole, words, paths):
        self.write(mutant.file, mutant.changed(whole))
        try:
            return self.failures(words, paths)
        finally:
            self.write(mutant.file, whole)


def summary(answers):
    """Lines of a table: how many mutants of every part each suite finds."""
    lines = [
        f"{'part':12} {'mutants':>8} " + " ".join(f"{suite:>8}" for suite in SUITES) + "  not found"
    ]
    for part in (*PARTS, "all"):
        found = Counter(each["suite"] for each in answers if part in ("all", each["part"]))
        total, sums = sum(found.values()), 0
        if not total:
            continue
        row = []
        for suite in SUITES:
            sums += found[suite]
            row.append(f"{100 * sums / total:7.0f}%")
        missed = [
            each["defect"]
            for each in answers
            if each["part"] == part and each["suite"] in ("none", "stale")
        ]
        lines.append(f"{part:12} {total:8} " + " ".join(row) + "  " + "; ".join(missed))
    return lines


def read_table(path=TABLE):
    """The rows of a table by file and defect; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        return {(row["file"], row["defect"]): row for row in csv.DictReader(lines)}


def write_table(path, rows):
    """Write rows of all parts in the order of the lists, without those of mutants that no list
    has."""
    listed = [(mutant.file, mutant.defect) for part in PARTS for mutant in mutants(part)]
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in listed if key in rows)


def main(words=None):
    """Try the mutants; exit code 1 where one no longer applies or the whole suite finds fewer than
    nine in ten."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--part", choices=PARTS, action="append")
    options = parser.parse_args(words)
    wanted = [mutant for part in options.part or PARTS for mutant in mutants(part)]
    rows = read_table(options.table)
    tests = {key: row for key, row in rows.items() if row["test"].startswith("tests/")}
    known = {
        key: tests[key] for key in ((each.file, each.defect) for each in wanted) if key in tests
    }
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy_to(Path(name))
        copy = Copy(Path(name))
        named = sorted({row["test"] for row in known.values()})
        red = (
            set(copy.failures(("-m", "slow or not slow"), named, most=len(named)))
            if named
            else set()
        )
        for count, mutant in enumerate(wanted, 1):
            key = (mutant.file, mutant.defect)
            before = known.get(key)
            found = copy.tried(mutant, None if before is None or before["test"] in red else before)
            rows[key] = {"part": mutant.part, "file": mutant.file, "defect": mutant.defect} | found
            write_table(options.table, rows)
            words = f"{found['suite']:6} {mutant.file}: {mutant.defect} {found['test']}"
            print(f"{count}/{len(wanted)} {words}", flush=True)
    tried = [rows[mutant.file, mutant.defect] for mutant in wanted]
    print("\n".join(summary(tried)))
    found = sum(each["suite"] in ("fast", "normal") for each in tried)
    return int(found < 0.9 * len(tried) or any(each["suite"] == "stale" for each in tried))


if __name__ == "__main__":
    sys.exit(main())
