"""The ten tasks of the guide, typed one after the other in one folder."""

import re

import pytest

from tests.examples.test_counters_to_engine import AFTER, BEFORE, scrape


def tasks(guide):
    """Commands of every task, by its heading."""
    text = guide.partition("## Ten tasks")[2].partition("\n## ")[0]
    _, *parts = re.split(r"^### ", text, flags=re.MULTILINE)
    return {
        part.partition("\n")[0]: re.findall(r"^    (rooftree .*)$", part, flags=re.MULTILINE)
        for part in parts
    }


@pytest.mark.heavy
def test_every_task_is_done_by_its_commands(root, user, tmp_path):
    """Tables are printed, and the files that the text speaks of are there."""
    (tmp_path / "before.prom").write_text(scrape(BEFORE))
    (tmp_path / "after.prom").write_text(scrape(AFTER))
    done = {
        title: [user(command) for command in commands]
        for title, commands in tasks((root / "GUIDE.md").read_text()).items()
    }
    assert len(done) == 10 and all(done.values())
    for title, answers in done.items():
        assert all(re.search(r"\d", answer.out) for answer in answers[-1:]), title
    assert list((tmp_path / "plan" / "vllm").iterdir()) and list((tmp_path / "served").iterdir())
    for folder in ("kept", "compared", "long"):
        assert (tmp_path / folder / "recommendation.json").is_file()
