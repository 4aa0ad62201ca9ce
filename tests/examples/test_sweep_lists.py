"""The guide's lists: every model on every device, then only what a new release moved."""

import itertools
import re

import pandas
import yaml

KEYS = ["model", "device", "engine", "tensor_parallel", "drafter", "batch", "context"]


def test_the_lists_of_the_guide_become_one_table(user, tmp_path, root):
    guide = (root / "GUIDE.md").read_text()
    text = re.search(r"```yaml\n(# lists\.yaml.*?)```", guide, flags=re.DOTALL).group(1)
    command = re.search(r"^    (rooftree sweep lists\.yaml .*)$", guide, flags=re.MULTILINE).group(
        1
    )
    (tmp_path / "lists.yaml").write_text(text)
    user(f"{command} --workers 1 --csv cells.csv")
    frame = pandas.read_parquet(tmp_path / "cells.parquet")
    lists = yaml.safe_load(text)
    assert set(map(tuple, frame[KEYS].itertuples(index=False))) == set(
        itertools.product(*lists.values())
    )
    assert len(frame) == len((tmp_path / "cells.csv").read_text().splitlines()) - 1
    fit = frame[frame.feasible]
    assert fit.reason.isna().all()
    assert frame[~frame.feasible].reason.str.len().min() > 0
    assert (fit.tokens_per_s >= 0.999 * fit.plain_tokens_per_s).all()
    first = fit[(fit.model == "llama-3.1-8b") & (fit.device == "h100-sxm") & (fit.batch == 1)]
    assert first.groupby("context").speedup.max().min() > 1.5, "EAGLE-3 pays for one request"
    user("rooftree sweep --compare cells.parquet cells.parquet")
