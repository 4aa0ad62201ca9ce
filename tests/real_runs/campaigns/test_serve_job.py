"""Jobs that serve: exported words with stated rates, every run once, no process left."""

import json
import sys
import time

import pytest

from app.exporters.registry import export
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from real_runs.campaigns.campaign import run_campaign
from real_runs.campaigns.file import read_campaign
from real_runs.campaigns.jobs import ServeJob
from real_runs.campaigns.results import SERVED, read_served
from real_runs.campaigns.serve_job import run_serve
from tests.app.conftest import run

CAMPAIGNS = __import__("real_runs.campaigns").campaigns.__path__[0]
RATES = (0.5, 0.25, 0.125)
# answers as vLLM does, wherever it is told to listen
STAND_IN = """import asyncio, sys
sys.path.insert(0, {root!r})
from tests.real_runs.servers import stub_server as stub
port = int(sys.argv[sys.argv.index("--port") + 1])
async def main():
    served = stub.Stub("vllm", interval_s=0.005, at_once=2)
    server = await asyncio.start_server(served.serve, "127.0.0.1", port)
    await server.serve_forever()
asyncio.run(main())
"""


def exported(engine, **changes):
    given = {
        "method": "n-gram",
        "ngram_min": 1,
        "ngram_max": 1,
        "draft_tokens": 3,
        "acceptance_by_depth": RATES,
    }
    given |= {"deployment": DeploymentNames(**changes.pop("names"))} | changes
    return export(DecodingConfiguration(**given), engine, synthetic=True).command


@pytest.mark.parametrize(
    ("file", "place", "engine", "changes"),
    [
        (
            "llama-cpp-synthetic",
            0,
            "llama.cpp",
            {"names": {"model": "m.gguf"}, "max_batch": 4, "max_length": 608},
        ),
        ("vllm-synthetic", 0, "vllm", {"names": {"model": "Qwen/Qwen3-8B"}, "max_batch": 64}),
        (
            "vllm-synthetic",
            1,
            "vllm",
            {
                "names": {"model": "Qwen/Qwen3-8B"},
                "max_batch": 64,
                "method": "eagle-3",
                "draft_model": "AngelSlim/Qwen3-8B_eagle3",
            },
        ),
    ],
)
def test_the_words_of_shipped_campaigns_are_those_that_are_exported(file, place, engine, changes):
    import shlex

    job = read_campaign(f"{CAMPAIGNS}/{file}.yaml").jobs[place]
    words = job.words(model=changes["names"]["model"], draft_tokens=3, acceptance=0.5)
    assert words == shlex.split(exported(engine, **changes))


def job(words, **changes):
    given = {
        "name": "served",
        "kind": "serve",
        "estimate_s": 60,
        "engine": "vllm",
        "model": "stub",
        "start": words,
        "draft_tokens": [1, 2],
        "acceptance": [0.5],
        "requests": [1, 2],
        "prompt_tokens": 8,
        "new_tokens": 16,
        "rounds": 2,
        "wait_s": 30,
    } | changes
    return ServeJob(**given)


@pytest.fixture
def words(tmp_path, request):
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN.format(root=str(request.config.rootpath)))
    return [sys.executable, str(script), "{draft_tokens}", "{rates}"]


def made(one, folder, left_s=60.0):
    return run_serve(
        one,
        folder=folder,
        threads=1,
        model="stub",
        deadline=time.monotonic() + left_s,
        should_stop=lambda: False,
    )


def test_every_length_and_number_of_requests_is_run_and_nothing_twice(words, tmp_path):
    runs, missing = made(job(words), tmp_path)
    places = {(each["draft_tokens"], each["requests"], each["round"]) for each in runs}
    assert missing == 0 and len(runs) == len(places) == 8
    assert all(each["decode_s"] > 0 and each["tpot_s"] > 0 for each in runs)
    assert made(job(words), tmp_path, left_s=-1.0) == (
        runs,
        0,
    )  # nothing is left to start a server for


def test_a_server_that_does_not_come_up_leaves_its_runs_to_a_later_call(words, tmp_path):
    refusing = "import sys; sys.exit(sys.argv.pop(2) == '2' or exec(open(sys.argv[1]).read()))"
    one = job([words[0], "-c", refusing, words[1], "{draft_tokens}"])
    runs, missing = made(one, tmp_path)
    assert {run["draft_tokens"] for run in runs} == {1} and (len(runs), missing) == (4, 4)


def test_a_program_that_does_not_come_up_is_said_with_its_log(tmp_path):
    with pytest.raises(InputError, match="ended before it answered"):
        made(job([sys.executable, "-c", "raise SystemExit(3)"]), tmp_path)
    with pytest.raises(InputError, match="cannot be started"):
        made(job(["no-such-program"]), tmp_path / "other")


def test_a_campaign_keeps_the_runs_of_its_serving_jobs(words, tmp_path):
    given = job(words, draft_tokens=[1]).model_dump()
    file = tmp_path / "c.yaml"
    file.write_text(json.dumps({"schema": 1, "jobs": [given]}))  # JSON is YAML
    report = run_campaign(file, budget_s=120, out=tmp_path / "out", isolate=False)
    assert [each.state for each in report.outcomes] == ["finished"] and report.outcomes[0].rows == 4
    assert len(read_served(tmp_path / "out" / SERVED)["served"]) == 4
    again = run(
        "campaign",
        str(file),
        "--budget",
        "60s",
        "--out",
        str(tmp_path / "out"),
        "--resume",
        "--json",
    )
    assert again.code == 0 and json.loads(again.out)["jobs"][0]["resumed"]


def test_a_file_that_holds_no_runs_is_refused(tmp_path):
    (tmp_path / SERVED).write_text("[1]")
    with pytest.raises(InputError, match="runs by job"):
        read_served(tmp_path / SERVED)
    assert read_served(tmp_path / "absent.json") == {}
