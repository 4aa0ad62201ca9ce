"""A performance engineer's own day of requests: a table with odd names and ISO times through every
verb that takes traffic."""

import datetime
import random

import pytest


@pytest.fixture
def day(tmp_path):
    """A table of requests, 12 seconds apart on average, that begins at midnight."""

    def written(count):
        draw, at = random.Random(1), datetime.datetime(2026, 5, 4, tzinfo=datetime.UTC)
        rows = ["Request Time;Model;# Prompt Tokens;Completion Tokens (n)"]
        for _ in range(count):
            at += datetime.timedelta(seconds=draw.expovariate(5.0))
            rows.append(f"{at.isoformat()};m;{draw.randint(50, 400)};{draw.randint(5, 40)}")
        (tmp_path / "day.csv").write_text("\n".join(rows) + "\n")

    return written


def test_a_day_of_requests_is_imported(user, day):
    day(20_000)
    imported = user("rooftree traces import day.csv --json").answer
    assert imported["format"] == "request-log" and imported["requests"] == 20_000
    assert 3_800 < imported["last_arrival_s"] < 4_200


def test_requests_go_through_every_verb(user, day):
    day(60)
    where = "--model llama-3.2-1b --device l4"
    served = user(f"rooftree simulate --requests day.csv {where} --set replicas=4")
    (row,) = [line.split() for line in served.lines if line.startswith("as asked")]
    assert row[-2] == "60", "finished"
    cached = user(f"rooftree simulate --requests day.csv {where} --set scheduler.prefix_cache=true")
    assert (
        "a prefix cache is asked for, and the requests of day.csv tell of no prefix" in cached.out
    )
    planned = user(f"rooftree capacity --requests day.csv {where} --slo-tpot 50 --json").answer
    assert planned["inputs"]["rate"] == pytest.approx(5.0, rel=0.3)
    searched = user(
        f"rooftree optimize --search full --requests day.csv {where} --no-simulate --method n-gram"
        " --acceptance 0.3 --draft-tokens 2 --json"
    ).answer
    assert searched
