"""Which target, device and number format predict what a loop of this machine takes?"""

from __future__ import annotations

from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment, Fidelity
from costmodel.passes.measured import passes_of
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from real_runs.campaigns.results import offer_measured_passes

DTYPES = {"float32": "fp32", "bfloat16": "bf16"}


def loop_deployment(
    model: str, profile: str, *, dtype: str, fidelity: Fidelity, graphs: bool = False
) -> Deployment:
    """The deployment of a loop that runs here.

    Args:
        model: name that the cost model knows the target by.
        profile: device by name or TOML file.
        dtype: "float32" or "bfloat16".
        fidelity: of the predictions.
        graphs: passes are launched as graphs.

    Raises:
        InputError: no such model or device, or no measured passes for "measured": said now, not
            after the runs.
    """
    form = DTYPES[dtype]
    deployment = Deployment(
        architecture=load_model(model),
        device=load_device(profile),
        precision=Precision(weights=form, activations=form, kv=form),
        fidelity=fidelity,
        graphs=graphs,
    )
    if fidelity == "measured":
        offer_measured_passes()
        passes_of(deployment)
    return deployment
