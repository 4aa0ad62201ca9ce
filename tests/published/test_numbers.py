"""Numbers that travel with the tests are those of the whole table."""

import csv

INPUTS = ("system", "target", "hardware", "n_gpus", "batch", "prompt_len", "tree_or_gamma", "unit")


def key(row):
    return tuple(row[name] for name in (*INPUTS, "value", "speedup"))


def test_every_number_has_a_source_and_is_stated_once(published):
    with (published / "numbers.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert rows and all(row["source"] and (row["value"] or row["speedup"]) for row in rows)
    stated = [(*key(row), row["dataset"]) for row in rows]
    assert len(stated) == len(set(stated))


def test_every_number_of_a_thread_has_a_source_and_a_setup(published):
    with (published / "tracker_numbers.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert rows and all(row["source"] and row["setup"] and float(row["value"]) > 0 for row in rows)
    assert len({tuple(row.values()) for row in rows}) == len(rows)


def test_every_number_of_diffusion_is_one_of_the_whole_table(reference_data, published):
    with (
        (reference_data / "published" / "diffusion_and_jacobi.csv").open(encoding="utf-8") as whole,
        (published / "diffusion_numbers.csv").open(encoding="utf-8") as own,
    ):
        known = list(csv.DictReader(whole))
        rows = list(csv.DictReader(own))
    assert rows and all(row["source"] and row in known for row in rows)


def test_every_number_is_one_of_the_whole_table(reference_data, published):
    whole, own = (
        folder / name
        for folder, name in (
            (reference_data / "published", "speculative_and_serving.csv"),
            (published, "numbers.csv"),
        )
    )
    with whole.open(newline="", encoding="utf-8") as lines:
        known = {key(row) for row in csv.DictReader(lines)}
    with own.open(newline="", encoding="utf-8") as lines:
        assert {key(row) for row in csv.DictReader(lines)} <= known
