"""How far off is rooftree on this card? One run of under 25 minutes, from a bare card to a report.

Probes the card, times kernels and passes, fits a profile, and puts chosen and other configurations
that entered no fit beside what was predicted of them. Every stage keeps what it has; a later call
goes on. Leaves out acceptance of a real drafter (`real_runs.validation.own_loop`): passes are
timed, and a recording says what they emit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardware_profiles.errors import InputError
from real_runs.calibration.device import calibrate_device, fit_results
from real_runs.campaigns.campaign import CampaignReport, run_campaign
from real_runs.gpu_doctor import ProbeResult, examine
from real_runs.models.device import checked_device
from real_runs.validation.replayed import validate_replayed
from real_runs.validation.score import Validation

_SHIPPED = Path(__file__).resolve().parents[1] / "campaigns"
KERNELS_S, PASSES_S, CALIBRATION_S = 540.0, 360.0, 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class QuickPlan:
    """What is run, and how long each part may take.

    Attributes:
        kernels: campaign of kernels, passes and real decoding.
        passes: campaign of passes; its jobs named `score...` are scored and enter no fit.
        kernels_s: wall time, as the two below.
        passes_s: of the passes.
        calibration_s: of the measurements that the profile is fitted to.
        model: shipped model whose shapes the calibration measures; None: Llama-3.1-8B.
        isolate: run every job in a process of its own.
    """

    kernels: Path = _SHIPPED / "gpu-80gb.yaml"
    passes: Path = _SHIPPED / "validate-gpu.yaml"
    kernels_s: float = KERNELS_S
    passes_s: float = PASSES_S
    calibration_s: float = CALIBRATION_S
    model: str | None = None
    isolate: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class QuickReport:
    """What was found.

    Attributes:
        findings: of the probes.
        campaigns: of kernels and of passes, as far as they came.
        profile: the fitted one, a TOML file.
        validation: predicted beside measured.
    """

    findings: tuple[ProbeResult, ...]
    campaigns: Mapping[str, CampaignReport]
    profile: Path
    validation: Validation


def validate_quickly(
    out: Path,
    *,
    device: str = "cuda",
    base: str | None = None,
    resume: bool = False,
    plan: QuickPlan | None = None,
    probe: Callable[..., Sequence[ProbeResult]] = examine,
    tell: Callable[[str], None] = lambda text: None,
) -> QuickReport:
    """Measure, fit, predict and compare.

    Args:
        out: folder; a folder per stage is made in it.
        device: torch device, a GPU.
        base: profile to start from; None: the card's own.
        resume: go on in a folder that an earlier call began.
        plan: campaigns and budgets; None: the shipped ones.
        probe: runs the probes; called with the device and `progress`.
        tell: called with what is under way.

    Raises:
        InputError: no GPU, a folder that holds results, a probe that found wrong numbers, or too
            little was measured.
    """
    plan = plan or QuickPlan()
    if device.startswith("cpu"):
        rule = "must be a GPU; `calibrate` and `validate` without --quick measure a processor"
        raise InputError(rule, key="device", value=device)
    checked_device(device)
    tell("1 of 5: probing the card, a minute")
    findings = tuple(
        probe(
            device,
            progress=lambda finding: tell(f"{finding.probe}: {finding.state} {finding.detail}"),
        )
    )
    wrong = [finding.probe for finding in findings if finding.state == "wrong"]
    if wrong:
        rule = f"gives no true numbers: {', '.join(wrong)}; `rooftree doctor --gpu` says what to do"
        raise InputError(rule, key="device", value=device)
    campaigns = {}
    for number, (name, file, budget_s) in enumerate(
        (("kernels", plan.kernels, plan.kernels_s), ("passes", plan.passes, plan.passes_s)), start=2
    ):
        tell(f"{number} of 5: {name}, at most {budget_s / 60:.0f} minutes")
        campaigns[name] = run_campaign(
            file,
            budget_s=budget_s,
            out=out / name,
            resume=resume,
            isolate=plan.isolate,
            progress=tell,
        )
        _raise_where_stopped(campaigns[name])
    profile = _profile(
        out / "calibration", plan, device=device, base=base, resume=resume, tell=tell
    )
    tell("5 of 5: predicting what was measured")
    validation = validate_replayed(out / "passes", profile=str(profile))
    return QuickReport(
        findings=findings, campaigns=campaigns, profile=profile, validation=validation
    )


def _profile(
    out: Path,
    plan: QuickPlan,
    *,
    device: str,
    base: str | None,
    resume: bool,
    tell: Callable[[str], None],
) -> Path:
    """The profile fitted to this card; fitted again where its rows are all there."""
    tell(f"4 of 5: calibration, at most {plan.calibration_s / 60:.0f} minutes")
    if resume and any(out.glob("*.toml")):
        return fit_results(out, base=base, dtype="bf16").profile
    return calibrate_device(
        out=out,
        device=device,
        model=plan.model,
        budget_s=plan.calibration_s,
        base=base,
        resume=resume and out.exists(),
        isolate=plan.isolate,
        progress=tell,
    ).profile


def _raise_where_stopped(report: CampaignReport) -> None:
    if any(outcome.state == "stopped" for outcome in report.outcomes):
        raise KeyboardInterrupt
