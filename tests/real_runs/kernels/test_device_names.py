"""A card gets the profile of its own part or none: a relative's numbers would be wrong without a
sign of it."""

import pytest

torch = pytest.importorskip("torch")

from hardware_profiles.units import GIB  # noqa: E402
from real_runs.kernels.device_names import profile_of  # noqa: E402

# what torch names cards, with their multiprocessors and GiB
CARDS = [
    ("NVIDIA H100 80GB HBM3", 132, 79.2, "h100-sxm"),
    ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 60, 39.4, ""),
    ("NVIDIA H100 80GB HBM3", 60, 39.4, ""),  # a slice that keeps the name
    ("NVIDIA H100 PCIe", 114, 79.2, "h100-pcie"),
    ("NVIDIA H100 NVL", 132, 93.0, "h100-nvl"),
    ("NVIDIA H200", 132, 139.8, "h200-sxm"),
    ("NVIDIA H200 NVL", 132, 139.8, "h200-nvl"),
    ("NVIDIA GH200 480GB", 132, 94.5, "gh200-96"),
    ("NVIDIA GH200 144G HBM3e", 132, 139.8, "gh200-144"),
    ("NVIDIA A100-SXM4-80GB", 108, 79.2, "a100-sxm-80"),
    ("NVIDIA A100-SXM4-40GB", 108, 39.4, "a100-sxm-40"),
    ("NVIDIA A100 80GB PCIe", 108, 79.2, "a100-pcie-80"),
    ("NVIDIA A10G", 80, 22.0, "a10g"),
    ("NVIDIA A10", 72, 22.0, "a10"),
    ("NVIDIA B200", 148, 178.4, "b200-sxm"),
    ("NVIDIA L4", 58, 22.0, "l4"),
    ("NVIDIA L40", 142, 44.4, "l40"),
    ("NVIDIA L40S", 142, 44.4, "l40s"),
    ("NVIDIA GeForce RTX 3090", 82, 23.6, "rtx-3090"),
    ("NVIDIA GeForce RTX 3090 Ti", 84, 23.6, ""),
    ("NVIDIA GeForce RTX 4090", 128, 23.5, "rtx-4090"),
    ("NVIDIA GeForce RTX 4090 D", 114, 23.5, "rtx-4090-d"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 76, 15.7, ""),
    ("AMD Instinct MI300X", 304, 192.0, "mi300x"),
    ("AMD Instinct MI325X", 304, 256.0, "mi325x"),
    ("CPU: AMD EPYC", 0, 0.0, ""),
]


@pytest.mark.parametrize(("title", "processors", "gib", "profile"), CARDS)
def test_profiles_are_named_only_where_the_part_is_certain(title, processors, gib, profile):
    assert profile_of(title, processors=processors, memory_bytes=gib * GIB) == profile
