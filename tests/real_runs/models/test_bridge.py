"""A bridge is copied to where states are once, not at every draft token."""

import torch

from real_runs.models.bridge import Bridge, unit_rms


def test_a_bridge_is_placed_once_for_each_number_format():
    bridge = Bridge(exit_layer=1, weight=torch.randn(4, 4), bias=torch.randn(4))
    states = torch.randn(3, 4)
    for _ in range(2):
        exact = unit_rms(states) @ bridge.weight.T + bridge.bias
        torch.testing.assert_close(bridge(states), exact)
    assert bridge(states.bfloat16()).dtype == torch.bfloat16
    placed = {where: id(pair[0]) for where, pair in bridge._placed.items()}
    bridge(states.bfloat16())
    assert len(placed) == 2 and placed == {
        where: id(pair[0]) for where, pair in bridge._placed.items()
    }
