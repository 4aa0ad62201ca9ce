"""What does the tab key offer in place of a name? Shipped models, devices, engines and methods.

Where an option takes a list, the last name of it is completed. Leaves out files, which the shell
completes itself.
"""

from collections.abc import Callable, Iterable


def _offering(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def offer(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return offer


def _models() -> Iterable[str]:
    from costmodel.architectures.library import model_names

    return model_names()


def _devices() -> Iterable[str]:
    from hardware_profiles.loader import device_names

    return device_names()


def _engines() -> Iterable[str]:
    from costmodel.engine_library import engine_names

    return engine_names()


def _methods() -> Iterable[str]:
    from costmodel.method_library import method_names

    return method_names()


models = _offering(_models)
devices = _offering(_devices)
engines = _offering(_engines)
methods = _offering(_methods)
shapes = _offering(
    lambda: ("off", "own", "chain:5", "chains:2x4", "tree:16", "dynamic:16x6", "prompted:48")
)
