"""Names that drivers really give, the cards they mean, and the look-alikes that are none of
them."""

import pytest

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.recognition import recognise
from hardware_profiles.stated_names import read_device_name, stated_device
from hardware_profiles.units import GIB, MIB
from tests.every import every

# name, memory.total of nvidia-smi in MiB (or of torch in GiB), processors: as public logs show them
SEEN = [
    ("NVIDIA H100 80GB HBM3", 81559, 132, "h100-sxm"),
    ("NVIDIA H100 PCIe", 81559, 114, "h100-pcie"),
    ("NVIDIA H100 NVL", 95830, 132, "h100-nvl"),
    ("NVIDIA H200", 143771, 132, "h200-sxm"),
    ("NVIDIA H200 NVL", 143771, 132, "h200-nvl"),
    ("NVIDIA H20", 97871, 78, "h20"),
    ("NVIDIA H800", 81559, 132, "h800-sxm"),
    ("NVIDIA B200", 183359, 148, "b200-sxm"),
    ("NVIDIA B300 SXM6 AC", 275040, 148, "b300-sxm"),
    ("NVIDIA GB200", 189471, 152, "gb200"),
    ("NVIDIA GB300", 284208, 152, "gb300"),
    ("NVIDIA GH200 480GB", 97871, 132, "gh200-96"),
    ("GH200 120GB", 97871, None, "gh200-96"),
    ("NVIDIA A100-SXM4-80GB", 81920, 108, "a100-sxm-80"),
    ("NVIDIA A100-SXM4-40GB", 40960, 108, "a100-sxm-40"),
    ("A100-SXM4-40GB", 40536, 108, "a100-sxm-40"),
    ("NVIDIA A100 80GB PCIe", 81920, 108, "a100-pcie-80"),
    ("NVIDIA A100-PCIE-40GB", 40960, 108, "a100-pcie-40"),
    ("NVIDIA A800-SXM4-80GB", 81920, 108, "a800-sxm-80"),
    ("NVIDIA A10", 23028, 72, "a10"),
    ("NVIDIA A10G", 23028, 80, "a10g"),
    ("NVIDIA A30", 24576, 56, "a30"),
    ("NVIDIA A40", 46068, 84, "a40"),
    ("NVIDIA RTX A6000", 49140, 84, "rtx-a6000"),
    ("NVIDIA RTX 6000 Ada Generation", 49140, 142, "rtx-6000-ada"),
    ("NVIDIA L4", 23034, 58, "l4"),
    ("NVIDIA L20", 46068, 92, "l20"),
    ("NVIDIA L40", 46068, 142, "l40"),
    ("NVIDIA L40S", 46068, 142, "l40s"),
    ("Tesla T4", 15360, 40, "t4"),
    ("Tesla V100-SXM2-16GB", 16384, 80, "v100-sxm-16"),
    ("Tesla V100-SXM2-32GB", 32768, 80, "v100-sxm-32"),
    ("NVIDIA GeForce RTX 3080", 10240, 68, "rtx-3080"),
    ("NVIDIA GeForce RTX 3090", 24576, 82, "rtx-3090"),
    ("NVIDIA GeForce RTX 4080", 16376, 76, "rtx-4080"),
    ("NVIDIA GeForce RTX 4090", 24564, 128, "rtx-4090"),
    ("NVIDIA GeForce RTX 4090 D", 24564, 114, "rtx-4090-d"),
    ("NVIDIA GeForce RTX 5080", 16303, 84, "rtx-5080"),
    ("NVIDIA GeForce RTX 5090", 32607, 170, "rtx-5090"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, 188, "rtx-pro-6000"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887, 188, "rtx-pro-6000"),
    ("AMD Instinct MI300X", 196592, 304, "mi300x"),
    ("NVIDIA GB10", None, 48, "dgx-spark"),
]
UNKNOWN = [
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 D",
    "NVIDIA GeForce RTX 4080 SUPER",
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA H20-3e",
    "NVIDIA A100-PG509-200",
    "NVIDIA A2",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "NVIDIA RTX A4500",
    "NVIDIA Graphics Device",
    "H100",
    "",
]
SLICES = [
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
    "GRID A100D-10C",
    "NVIDIA A40-48Q",
]


@every("name, memory_mib, processors, profile", SEEN)
def test_names_of_drivers_are_the_cards_they_mean(name, memory_mib, processors, profile):
    memory_bytes = None if memory_mib is None else memory_mib * MIB
    assert recognise(name, memory_bytes, processors) == profile
    assert recognise(f"  {name.lower()} ") == profile
    if memory_bytes is not None:  # what a runtime can allocate is a little less
        assert recognise(name, 0.975 * memory_bytes, processors) == profile


@pytest.mark.parametrize("name", UNKNOWN)
def test_look_alikes_are_not_taken_for_their_relatives(name):
    with pytest.raises(UnknownNameError, match="unknown GPU"):
        recognise(name)


@pytest.mark.parametrize("name", SLICES)
def test_slices_of_a_card_are_no_card(name):
    with pytest.raises(InputError, match="slice of a card"):
        recognise(name)


@pytest.mark.parametrize(
    ("name", "memory_gib", "processors", "word"),
    [
        ("NVIDIA GeForce RTX 4090", 47.99, 128, "24.0 GiB"),  # rebuilt with twice the memory
        ("NVIDIA GeForce RTX 3080", 12.0, 70, "10.0 GiB"),
        ("NVIDIA H100 80GB HBM3", 39.5, 60, "79.6 GiB"),  # a slice under the card's name
        ("NVIDIA H100 80GB HBM3", 79.6, 60, "132 processors"),
        ("NVIDIA H20", 140.0, 78, "95.6 GiB"),
    ],
)
def test_other_memory_or_processors_are_another_card(name, memory_gib, processors, word):
    with pytest.raises(InputError, match=word):
        recognise(name, memory_gib * GIB, processors)


def test_no_name_stands_for_two_profiles():
    owners = {}
    for profile in device_names():
        for name in load_device(profile).driver_names:
            if "--" not in profile:
                assert owners.setdefault(name.casefold(), profile) == profile
            assert recognise(name) == owners[name.casefold()]
    assert len(owners) >= 50


def test_every_gpu_can_be_recognised():
    unnamed = {
        name
        for name in device_names()
        if load_device(name).kind == "gpu"
        and "--" not in name
        and not load_device(name).driver_names
    }
    assert not unnamed


@pytest.mark.parametrize(
    ("text", "profile", "count"),
    [
        ("A100-40GB", "a100-sxm-40", None),
        ("A100-PCIe-40GB", "a100-pcie-40", None),
        ("A100-40GB (CPU offload)", "a100-sxm-40", None),
        ("1x A100 80GB (70B: 2x PP)", "a100-sxm-80", 1),
        ("RTX 3090 24GB", "rtx-3090", None),
        ("L40-48GB (CPU offload, PCIe4)", "l40", None),
        ("TPU-v4", "tpu-v4", None),
        ("TPU v4", "tpu-v4", None),
        ("8x H800 (TP/EP)", "h800-sxm", 8),
        ("2x H200 TP, dInfer", "h200-sxm", 2),
        ("MI250 64GB", "mi250-die", None),
        ("H100-96GB (Grand Teton)", "h100-sxm", None),
        ("H100 NVL", "h100-nvl", None),
    ],
)
def test_what_publications_say_of_their_hardware(text, profile, count):
    found = stated_device(text)
    assert (found.profile, found.devices) == (profile, count)
    assert profile in device_names()


@pytest.mark.parametrize(
    ("text", "open_points"),
    [
        ("A100", True),
        ("A100-40GB", True),
        ("A100-PCIe-40GB", False),
        ("RTX 3090", False),
        ("RTX 4090 48GB", True),
    ],
)
def test_what_a_publication_leaves_open_is_said(text, open_points):
    assert bool(stated_device(text).remark) == open_points


@pytest.mark.parametrize(
    "text",
    ["", "unstated", "RTX 5070 12GB", "A100 per caption / RTX 3090 per text", "n.a. (analytical)"],
)
def test_words_that_name_no_device_or_two_are_refused(text):
    with pytest.raises(InputError, match="hardware"):
        stated_device(text)


@every("name", [each for each in device_names() if "--" not in each])
def test_every_shipped_profile_is_recognised_by_its_own_name(name):
    assert stated_device(name).profile == name


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("H100", "h100-sxm"),
        ("h200", "h200-sxm"),
        ("a100-40gb", "a100-sxm-40"),
        ("A100 PCIe 40GB", "a100-pcie-40"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA GeForce RTX 4090 D", "rtx-4090-d"),
    ],
)
def test_a_person_may_say_less_than_a_profiles_name(name, profile):
    assert read_device_name(name) == profile
    assert load_device(name).name == profile


@pytest.mark.parametrize("name", ["8x H100", "A100 (SXM)", "H100, L4", "h10", "mi300", "", "gpu"])
def test_what_is_no_name_of_one_device_is_unknown(name):
    with pytest.raises(UnknownNameError, match=r"unknown device .*; nearest: "):
        load_device(name)
