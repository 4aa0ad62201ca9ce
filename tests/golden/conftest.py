"""Shared by golden tests: the published serving runs, answered and scored once."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.cli.main import main

TABLES = ("silicon_sample", "silicon_sample_2")
EVERY = 11  # rows, so that the suite stays short


@pytest.fixture(scope="session")
def published_score(published, tmp_path_factory):
    """What `score` answers for the runs that travel with the tests."""
    return scored([published / "serving_runs.csv"], tmp_path_factory.mktemp("score"))


@pytest.fixture(scope="session")
def sampled_score(reference_data, tmp_path_factory):
    """What `score` answers for every eleventh published run of aggregated serving; thousands of
    users take long."""
    folder = tmp_path_factory.mktemp("score")
    places = [folder / f"{name}.parquet" for name in TABLES]
    for name, place in zip(TABLES, places, strict=True):
        rows = pq.read_table(reference_data / "serving" / f"{name}.parquet").to_pylist()
        pq.write_table(
            pa.Table.from_pylist([row for row in rows if row["mode"] == "agg"][::EVERY]), place
        )
    return scored(places, folder)


def scored(tables, folder):
    assert main(["score", *map(str, tables), "--out", str(folder), "--quiet"]) == 0
    return json.loads((folder / "score.json").read_text())
