"""What is read of a card: its last cache, its own line of the driver's tool, and the kernels that
torch may choose."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from hardware_profiles.loader import load_device  # noqa: E402
from real_runs.kernels import device_names, machine  # noqa: E402
from real_runs.models import feed_forward  # noqa: E402
from real_runs.models.device import checked_device  # noqa: E402

PLACE = torch.device("cuda", 0)


@pytest.fixture
def card(monkeypatch):
    """A card by name: what torch says of it."""

    def named(name, **more):
        about = SimpleNamespace(name=name, uuid="1a2b", **more)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda place=None: about)

    return named


def test_the_last_cache_counts_where_a_driver_knows_the_second(card):
    card(
        "AMD Instinct MI300X",
        multi_processor_count=304,
        total_memory=192 << 30,
        L2_cache_size=4 << 20,
    )
    assert machine._cache_bytes(PLACE) == load_device("mi300x").cache_bytes > 200e6
    card("NVIDIA Unheard", multi_processor_count=10, total_memory=8 << 30, L2_cache_size=4 << 20)
    assert device_names.profile_here(PLACE) == "" and machine._cache_bytes(PLACE) == 4 << 20


def test_the_drivers_tool_is_asked_for_this_card_and_its_limits(card, monkeypatch):
    card("NVIDIA H100 80GB HBM3")
    asked = []

    def answered(command, **_):
        asked.append(command)
        fields = command[-2].split("=", 1)[1].split(",")
        return SimpleNamespace(stdout=", ".join(f"v{n}" for n in range(len(fields))) + "\n")

    monkeypatch.setattr(machine.subprocess, "run", answered)
    driver, clocks = machine.driver_and_clocks(PLACE)
    assert driver == "v1" and "--id=GPU-1a2b" in asked[0]
    for word in ("power.limit", "clocks.sm", "clocks_event_reasons.active", "TF32 off"):
        assert word in clocks


@pytest.mark.parametrize(
    ("capability", "groups"), [((8, 0), False), ((8, 9), False), ((9, 0), True), ((10, 0), True)]
)
def test_experts_are_grouped_only_where_a_kernel_does_it(monkeypatch, capability, groups):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place=None: capability)
    x = SimpleNamespace(device=PLACE, dtype=torch.bfloat16)
    assert feed_forward.groups_products(x) is groups
    assert not feed_forward.groups_products(SimpleNamespace(device=PLACE, dtype=torch.float32))


def test_a_kernel_that_plans_for_every_length_is_switched_off(ran):
    told = ran("""
from real_runs.models.device import checked_device
torch.backends.cuda.enable_cudnn_sdp(True)
checked_device("cuda")
print(torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled())
""")
    assert told == ["False", "True"]
    assert checked_device("cpu").type == "cpu"
