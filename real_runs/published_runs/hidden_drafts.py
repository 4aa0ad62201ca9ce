"""Which published runs speculated although no column of their table says so?

InferenceX measures some models with multi-token prediction too; where a table leaves that column
out, the image tells most such runs, because the scripts with and without it were seldom moved to a
release together. Leaves out images that ran both ways on a day: their rows are taken as they stand.
"""

from dataclasses import dataclass

_DEEPSEEK, _QWEN, _GLM = ("deepseek-v3", "deepseek-r1"), ("qwen3.5",), ("glm-5",)
_H200, _B200, _B300 = ("h200",), ("b200",), ("b300",)


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenDrafts:
    """Runs with multi-token prediction and no others.

    Attributes:
        engine: as the library of engines names it.
        models: beginnings of the names of models.
        devices: beginnings of the names of devices.
        precision: a table's word for the format of the weights; None: all.
        tags: of the image, whole.
        first: day, ISO, from which on that holds.
        last: day until which it does.
    """

    engine: str
    models: tuple[str, ...]
    devices: tuple[str, ...]
    precision: str | None = None
    tags: tuple[str, ...]
    first: str = "2025-08-12"
    last: str = "2026-05-31"

    def hold(
        self,
        *,
        engine: str,
        model: str,
        device: str,
        precision: str | None,
        tag: str | None,
        day: str | None,
    ) -> bool:
        """Whether a run is one of them; without an image the day decides where it is a single
        one.
        """
        imaged = tag in self.tags if tag else self.first == self.last
        dated = self.first <= day <= self.last if day else bool(tag) and self.first != self.last
        return (
            (engine, imaged, dated) == (self.engine, True, True)
            and model.startswith(self.models)
            and device.startswith(self.devices)
            and self.precision in (None, precision)
        )


# From the history of configs/nvidia-master.yaml (once .github/configs) and perf-changelog.yaml, to
# 2026-05-31: images that only entries with `spec-decoding: mtp` name. On 2026-01-14 the entries
# that pull request 392 added ran alone, in the image of the plain ones.
HIDDEN_DRAFTS: tuple[HiddenDrafts, ...] = (
    HiddenDrafts(
        engine="tensorrt-llm",
        models=_DEEPSEEK,
        devices=(*_H200, *_B200),
        tags=("1.1.0rc2.post2",),
        first="2026-01-14",
        last="2026-01-14",
    ),
    HiddenDrafts(engine="tensorrt-llm", models=_DEEPSEEK, devices=_B200, tags=("1.2.0rc6.post3",)),
    HiddenDrafts(
        engine="sglang",
        models=_DEEPSEEK,
        devices=_B200,
        precision="fp8",
        tags=("v0.5.8-cu130-amd64",),
    ),
    HiddenDrafts(
        engine="sglang", models=_QWEN, devices=_B200, precision="fp8", tags=("v0.5.9-cu130",)
    ),
    HiddenDrafts(
        engine="sglang",
        models=_QWEN,
        devices=_H200,
        precision="fp8",
        tags=("v0.5.10.post1", "v0.5.11", "v0.5.12"),
    ),
    HiddenDrafts(
        engine="sglang", models=_QWEN, devices=_B300, precision="fp8", tags=("v0.5.11-cu130",)
    ),
    HiddenDrafts(
        engine="sglang", models=_GLM, devices=_B200, precision="fp4", tags=("v0.5.11-cu130",)
    ),
)


def drafted(
    *,
    engine: str,
    model: str,
    device: str,
    precision: str | None,
    image: str | None,
    day: str | None,
) -> bool:
    """Whether a run of InferenceX speculated, though its row does not say.

    Args:
        engine: its name.
        model: its name.
        device: its name.
        precision: a table's word for the format of the weights.
        image: container, where the row says; in any spelling.
        day: of the measurement, ISO, where the row says.

    >>> drafted(engine="tensorrt-llm", model="deepseek-r1", device="b200-sxm", precision="fp8", day=None,
    ...         image="nvcr.io#nvidia/tensorrt-llm/release:1.2.0rc6.post3")
    True
    """
    tag = image.rsplit(":", 1)[1] if image and ":" in image else None
    return any(
        hidden.hold(
            engine=engine, model=model, device=device, precision=precision, tag=tag, day=day
        )
        for hidden in HIDDEN_DRAFTS
    )
