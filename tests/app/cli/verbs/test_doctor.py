"""The doctor looks, changes nothing, and says what is missing."""

import importlib.util
import json

import pytest

from real_runs import doctor


def test_every_topic_is_answered(rooftree):
    answer = rooftree("doctor", "--json").answer
    assert {"machine", "libraries", "back_ends", "weights", "verbs"} <= set(answer)
    states = {each["what"]: each["state"] for each in answer["libraries"]}
    for name in doctor.LIBRARIES:
        assert states[name] == ("here" if importlib.util.find_spec(name) else "absent")
    assert answer["verbs"]["optimize, predict, replay, tree, export"] == ""
    assert {each["what"] for each in answer["machine"]} >= {"processor", "threads", "memory"}


def test_tables_are_printed_unless_quiet(rooftree):
    told = rooftree("doctor")
    assert told.code == 0 and "what would run" in told.out and "processor" in told.out
    assert rooftree("doctor", "--quiet").out == ""


def test_what_is_missing_is_named(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        doctor.importlib.util, "find_spec", lambda name: None if name == "torch" else real(name)
    )
    found = doctor.diagnose()
    assert found.verbs["kernels, campaign"] == "torch"
    assert found.verbs["record"].endswith("model weights (--model)")
    assert not doctor.sees_gpu()
    assert found.machine[-1].state == "absent" and found.weights[0].state == "absent"


@pytest.mark.parametrize("text", ["", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"])
def test_memory_is_read_or_said_to_be_unknown(monkeypatch, text):
    monkeypatch.setattr(doctor, "_file", lambda path: text)
    found = doctor._memory()
    assert found.detail == ("4.0 of 8.0 GiB free" if text else "cannot be read here")


def test_a_gpu_whose_numbers_would_not_be_true_ends_after_its_table(rooftree, monkeypatch):
    pytest.importorskip("torch")
    from real_runs import gpu_doctor

    results = [
        gpu_doctor.ProbeResult(probe="identity", state="ok", detail="a card"),
        gpu_doctor.ProbeResult(probe="clocks", state="wrong", detail="drift", advice="wait"),
    ]
    monkeypatch.setattr(gpu_doctor, "examine", lambda device, *, progress: results)
    told = rooftree("doctor", "--gpu", "--device", "cpu")
    assert told.code == 2 and "what to do" in told.out and "drift" in told.out
    assert "--device: gives no true numbers: clocks, got 'cpu'" in told.err
    answer = json.loads(rooftree("doctor", "--gpu", "--device", "cpu", "--json").out)
    assert [row["state"] for row in answer["findings"]] == ["ok", "wrong"]
    assert answer["inputs"]["device"] == "cpu"
    assert answer["records"][0]["job"] == "heads-timed" and answer["records"][0]["fits"] == "yes"
    assert answer["sentences"][0].startswith("about 25 of 25 minutes, results of ")
    assert "rooftree campaign gpu-record would record" in told.out


def test_a_machine_without_a_card_is_told_what_one_would_record(rooftree):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("a card is here")
    for device, card in [("cuda", "h100-sxm"), ("L4", "l4")]:
        told = rooftree("doctor", "--gpu", "--device", device)
        assert told.code == 2 and "--device: must be a torch device of this machine" in told.err
        words = " ".join(told.out.split())
        assert "rooftree campaign gpu-record would record" in words and "heads-timed" in words
        assert "about 25 of 25 minutes" in words and f"ms on {card}" in words
        assert "no GPU of this machine was tried" in words
    answer = json.loads(rooftree("doctor", "--gpu", "--json").out)
    assert answer["findings"] == [] and answer["absent"].startswith("must be a torch device")
    for neither in ("cpu-generic", "nonsense"):
        told = rooftree("doctor", "--gpu", "--device", neither)
        assert told.code == 2 and told.out == "" and f"got '{neither}'" in told.err
