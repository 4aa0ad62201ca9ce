"""A GPU without a GPU: tensors that say cuda:0 over numbers on the CPU, for a process of its own.

Mixing devices fails as on a GPU, what makes the host wait is counted by place, and fails while a
graph is captured; a graph replays the operations that it captured. `install` changes torch for
good, so run it in a child process.
"""

import collections
import contextlib
import sys
import time

import torch
from torch.overrides import TorchFunctionMode

HERE = torch.device("cuda", 0)
HOST = torch.device("cpu")
SYNCS = collections.Counter()  # by what waited and where in real_runs
WAITS = {
    "item",
    "tolist",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "numpy",
    "nonzero",
    "unique",
    "cpu",
    "masked_select",
    "argwhere",
    "equal",
    "allclose",
}
FACTORIES = {
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "arange",
    "tensor",
    "as_tensor",
    "eye",
    "randperm",
    "linspace",
}
STATE = {"capture": None}


class CaptureBroken(RuntimeError):  # noqa: N818
    pass


class OnGpu(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return handled(func, args, kwargs or {})


class Everything(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return handled(func, args, kwargs or {})


def waited(name):
    frame, place = sys._getframe(), "?"
    while frame is not None and place == "?":
        file = frame.f_code.co_filename
        if "/real_runs/" in file and "/tests/" not in file:
            place = f"{file.split('/real_runs/')[1]}:{frame.f_lineno}"
        frame = frame.f_back
    if STATE["capture"] is not None:
        raise CaptureBroken(
            f"CUDA error: operation not permitted when stream is capturing ({name} at {place})"
        )
    SYNCS[name, place] += 1


def is_gpu(device):
    return device is not None and str(device).startswith("cuda")


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from tensors(each)


def bare(value):
    if isinstance(value, OnGpu):
        return value.as_subclass(torch.Tensor)
    if type(value) in (list, tuple):
        return type(value)(bare(each) for each in value)
    if type(value) is dict:
        return {key: bare(each) for key, each in value.items()}
    return HOST if isinstance(value, (str, torch.device)) and is_gpu(value) else value


def worn(value):
    if isinstance(value, torch.Tensor):
        return value if isinstance(value, OnGpu) else value.as_subclass(OnGpu)
    if isinstance(value, tuple) and type(value).__module__ == "torch.return_types":
        return type(value)([worn(each) for each in value])
    return type(value)(worn(each) for each in value) if type(value) in (list, tuple) else value


def attended(query, keys, values, *, causal=False, bias=None):
    group = query.shape[1] // keys.shape[1]
    keys, values = (
        keys.repeat_interleave(group, 1).float(),
        values.repeat_interleave(group, 1).float(),
    )
    scores = query.float() @ keys.transpose(-1, -2) * query.shape[-1] ** -0.5
    if causal:
        rows, slots = scores.shape[-2:]
        scores = scores.masked_fill(
            ~torch.ones(rows, slots, dtype=torch.bool).tril(slots - rows), float("-inf")
        )
    scores = scores if bias is None else scores + bias.float()
    return (scores.softmax(-1) @ values).to(query.dtype), scores.logsumexp(-1)


def ragged(query, keys, values, starts, ends, causal):
    parts = []
    for i in range(len(starts) - 1):
        rows, slots = slice(starts[i], starts[i + 1]), slice(ends[i], ends[i + 1])
        each = (x.transpose(0, 1)[None] for x in (query[rows], keys[slots], values[slots]))
        parts.append(attended(*each, causal=causal)[0][0].transpose(0, 1))
    return torch.cat(parts), None, None, None, None


def computed(name, func, args, kwargs):
    if name == "_scaled_dot_product_flash_attention":
        return *attended(*args[:3], causal=args[4] if len(args) > 4 else False), None
    if name == "_scaled_dot_product_efficient_attention":
        assert args[0].shape[1] == args[1].shape[1], "this kernel knows no groups"
        out, lse = attended(*args[:3], bias=args[3])
        return (
            out,
            torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=float("inf")),
            None,
            None,
        )
    if name == "_flash_attention_forward":
        return ragged(*args[:5], args[8])
    if name == "scaled_dot_product_attention":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
            return func(*args, **kwargs)
    return func(*args, **kwargs)


def handled(func, args, kwargs):
    name = getattr(func, "__name__", str(func))
    first = args[0] if args and isinstance(args[0], torch.Tensor) else None
    if name == "__get__":
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        if isinstance(first, OnGpu) and attribute in ("device", "is_cuda"):
            return HERE if attribute == "device" else True
        found = func(*bare(args))
        return worn(found) if isinstance(first, OnGpu) else found
    if name in ("to", "cpu", "cuda") and first is not None:
        return moved(name, func, args, kwargs, first)
    if name == "_has_compatible_shallow_copy_type":
        return False  # a module that moves gets new parameters
    gpu = any(isinstance(each, OnGpu) for each in tensors((args, kwargs)))
    if name in FACTORIES and kwargs.get("device") is not None:
        return made(name, func, args, kwargs, gpu)
    return operated(name, func, args, kwargs, first) if gpu else func(*args, **kwargs)


def moved(name, func, args, kwargs, first):
    target = kwargs.get("device") if name == "to" else {"cpu": HOST, "cuda": HERE}[name]
    for each in args[1:]:
        if isinstance(each, (str, torch.device)):
            target = each
        elif isinstance(each, torch.Tensor):
            target = HERE if isinstance(each, OnGpu) else HOST
    was = isinstance(first, OnGpu)
    now = was if target is None else is_gpu(target)
    if now != was:
        waited("copy to the host" if was else "copy to the device")
    found = bare(first) if name == "cuda" else func(*bare(args), **bare(kwargs))
    if now != was and found.data_ptr() == first.data_ptr():
        found = found.clone()
    if now and was:
        found = worn(found)
        noted(func, args, kwargs, found)
    return worn(found) if now else bare(found)


def made(name, func, args, kwargs, gpu):
    if not is_gpu(kwargs["device"]):
        return bare(func(*bare(args), **bare(kwargs)))
    if name in ("tensor", "as_tensor") and not gpu:
        waited("copy to the device")
    found = worn(func(*bare(args), **bare(kwargs)))
    noted(func, args, kwargs, found)
    return found


def operated(name, func, args, kwargs, first):
    if name in WAITS:
        waited(name)
        found = func(*bare(args), **bare(kwargs))
        return bare(found) if name in ("cpu", "numpy") else worn(found)
    if name in ("__getitem__", "__setitem__"):
        for index in tensors(args[1]):
            if index.dtype == torch.bool or (index.ndim and not isinstance(index, OnGpu)):
                waited("index by the host's numbers")
    elif name == "copy_":
        if isinstance(args[0], OnGpu) != isinstance(args[1], OnGpu):
            waited("copy between devices")
        if not isinstance(args[0], OnGpu):
            return bare(args[0]).copy_(bare(args[1]))
    elif any(not isinstance(each, OnGpu) and each.ndim for each in tensors((args, kwargs))):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found cuda:0 and cpu ({name})"
        )
    found = computed(name, func, bare(args), bare(kwargs))
    if (
        isinstance(first, OnGpu)
        and isinstance(found, torch.Tensor)
        and name.endswith("_")
        and not name.startswith("_")
    ):
        noted(func, args, kwargs, None)
        return first
    found = worn(found)
    noted(func, args, kwargs, found)
    return found


def noted(func, args, kwargs, found):
    if STATE["capture"] is not None:
        STATE["capture"].append((func, args, kwargs, found))


class Graph:
    def __init__(self):
        self.operations = []

    def replay(self):
        with (
            torch._C.DisableTorchFunction()
        ):  # of the mode, too: what has been captured is not looked at again
            for func, args, kwargs, found in self.operations:
                again = computed(getattr(func, "__name__", ""), func, bare(args), bare(kwargs))
                for old, new in zip(tensors(found), tensors(again), strict=False):
                    if old.data_ptr() != new.data_ptr():
                        bare(old).copy_(bare(new))

    def reset(self):
        self.operations = []


class Stream:
    def __init__(self, *_, **__):
        pass

    def wait_stream(self, _):
        pass

    def synchronize(self):
        waited("stream")

    def is_capturing(self):
        return STATE["capture"] is not None


class Event:
    def __init__(self, enable_timing=False):
        self.at = 0.0

    def record(self, *_):
        self.at = time.perf_counter()

    def elapsed_time(self, end):
        return max((end.at - self.at) * 1e3, 1e-6)


class Card:
    name, total_memory, multi_processor_count, major, minor = (
        "NVIDIA H100 80GB HBM3",
        81079 << 20,
        132,
        9,
        0,
    )
    L2_cache_size = 1 << 14


@contextlib.contextmanager
def capturing(graph, stream=None, **_):
    STATE["capture"] = graph.operations
    try:
        yield
    finally:
        STATE["capture"] = None


class Drawn(torch.Generator):
    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu")


def install():
    """Make torch believe in one H100."""
    cuda = torch.cuda
    cuda.is_available, cuda.device_count, cuda.current_device = lambda: True, lambda: 1, lambda: 0
    cuda.get_device_name, cuda.get_device_properties = lambda d=None: Card.name, lambda d=None: Card
    cuda.get_device_capability = lambda d=None: (Card.major, Card.minor)
    cuda.mem_get_info = lambda d=None: (4 << 30, Card.total_memory)
    cuda.Stream, cuda.Event, cuda.CUDAGraph, cuda.graph = Stream, Event, Graph, capturing
    cuda.current_stream, cuda.stream = lambda d=None: Stream(), lambda s: contextlib.nullcontext()
    cuda.synchronize, cuda.empty_cache = lambda d=None: waited("device"), lambda: None
    torch.accelerator.current_stream = (
        cuda.current_stream
    )  # optimizers of a torch built with CUDA ask the driver
    torch.Generator = Drawn
    Everything().__enter__()
