"""Training: what was stopped goes on bit for bit, and a file is used for its own recipe alone."""

import pytest

torch = pytest.importorskip("torch")

from real_runs.training import Checkpoint, load_module, minimise, module_sha256, save_module  # noqa: E402

STEPS = 7


def network(width=3):
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(width, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def trained(module, *, checkpoint=None, report=None, seed=0):
    def loss(step, generator):
        rows = torch.randn(8, 3, generator=generator)
        return ((module(rows)[:, 0] - rows.sum(dim=1) * (1 + step % 2)) ** 2).mean()

    minimise(
        module,
        loss,
        steps=STEPS,
        learning_rate=0.05,
        second_beta=0.98,
        seed=seed,
        checkpoint=checkpoint,
        report=report,
    )
    return module


def stopped(checkpoint, *, after):
    def kill(done, steps, loss):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(network(), checkpoint=checkpoint, report=kill)


def kept(tmp_path, **recipe):
    return Checkpoint(
        path=tmp_path / "part.safetensors", recipe={"of": "test", **recipe}, every_steps=2
    )


@pytest.mark.parametrize("after", [1, 2, 5, 6])
def test_stopped_training_goes_on_as_if_it_had_not_been(tmp_path, after):
    stopped(kept(tmp_path), after=after)
    seen = []
    resumed = trained(
        network(), checkpoint=kept(tmp_path), report=lambda done, steps, loss: seen.append(done)
    )
    assert seen == list(range(after // 2 * 2 + 1, STEPS + 1))
    assert module_sha256(resumed) == module_sha256(trained(network()))


def test_a_checkpoint_of_another_recipe_or_none_at_all_is_passed_over(tmp_path):
    stopped(kept(tmp_path), after=5)
    seen = []
    trained(
        network(),
        checkpoint=kept(tmp_path, seed="1"),
        report=lambda done, steps, loss: seen.append(done),
    )
    assert seen[0] == 1
    kept(tmp_path).path.write_bytes(b"\x08\0\0\0\0\0\0\0not json")
    again = trained(network(), checkpoint=kept(tmp_path))
    assert module_sha256(again) == module_sha256(trained(network()))


def test_the_loss_falls_and_depends_on_the_seed():
    losses = []
    one = trained(network(), report=lambda done, steps, loss: losses.append(loss))
    assert min(losses[2:]) < losses[0]
    assert module_sha256(one) != module_sha256(trained(network(), seed=1))


def test_a_module_is_read_back_for_its_own_recipe_and_shape_alone(tmp_path):
    path, made = tmp_path / "module.safetensors", trained(network())
    save_module(made, {"recipe": "a"}, path)
    back = network()
    before = module_sha256(back)
    for module, recipe in ((back, {"recipe": "b"}), (network(width=2), {"recipe": "a"})):
        assert not load_module(module, recipe, path)
    assert module_sha256(back) == before != module_sha256(made)
    assert load_module(back, {"recipe": "a"}, path)
    assert module_sha256(back) == module_sha256(made)
