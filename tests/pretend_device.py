"""A GPU that is not there: the real code runs with device "mps" on a machine that has none.

A tensor on the pretended device is a `PretendTensor`: a label around an ordinary one, which does the arithmetic. Its
`device` is mps:0, and it behaves as there: it does not mix with tensors of the CPU, NumPy cannot read it, and what
Apple's GPUs do not have (64-bit floats, 64-bit draws) is refused. What torch itself needs a device for, its generator
and its memory, is replaced.

To torch's own code below Python the tensors are on the CPU, so its kernels, autograd and autocast are those of the CPU,
and values can be compared with a run without the pretended device.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

MPS = torch.device("mps", 0)
aten = torch.ops.aten

MAY_MIX = {aten._to_copy.default, aten.copy_.default}
"""Operations that move values between devices."""
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default, aten.index_put.default}
"""Operations whose indices may be on the CPU."""

FULL_RANGE_DRAW = getattr(aten.random_, "from")  # a word of Python's own


class PretendTensor(Tensor):
    """A tensor on the pretended device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "PretendTensor":
        if inner.dtype in (torch.float64, torch.complex128):
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
        with torch.inference_mode(mode=False):  # in which a view of a weight is no inference tensor either
            wrapper: PretendTensor = Tensor._make_wrapper_subclass(
                cls,
                inner.shape,
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                device="cpu",
            )
        wrapper.inner = inner
        return wrapper

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"PretendTensor({self.inner})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return call(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


def is_pretended(value: object) -> bool:
    """Tell whether a value is a tensor on the pretended device."""
    return isinstance(value, PretendTensor)


def strip(value: object) -> object:
    """Return the ordinary tensor within."""
    return value.inner if isinstance(value, PretendTensor) else value


def label(value: object) -> object:
    """Put a tensor on the pretended device."""
    return PretendTensor(value) if isinstance(value, Tensor) and not is_pretended(value) else value


def move(tensor: Tensor, device: torch.device, dtype: torch.dtype | None) -> Tensor:
    """Return a tensor on another device, as `Tensor.to` does."""
    plain = tensor.detach()
    inner = plain.inner if isinstance(plain, PretendTensor) else plain
    copy = inner.to(dtype) if dtype is not None and dtype != inner.dtype else inner.clone()
    return PretendTensor(copy) if device.type == "mps" else copy


def convert(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Do what `Tensor.to` does, with its many ways of naming a device, a dtype or both."""
    if args and isinstance(args[0], Tensor):
        device, dtype = device_of(args[0]), args[0].dtype
    else:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    if device is None or device.type == device_of(tensor).type:
        return tensor if dtype is None or dtype == tensor.dtype else Tensor.to(tensor, dtype)
    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError("gradients do not pass between the devices of the pretense")
    return move(tensor, device, dtype)


def device_of(tensor: Tensor) -> torch.device:
    """Return the device a tensor is said to be on."""
    return MPS if is_pretended(tensor) else torch.device("cpu")


def refuse_numpy(tensor: Tensor, **_: object) -> object:
    """Refuse what only tensors on the CPU can do."""
    raise TypeError(
        "can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory"
    )


def set_data(tensor: Tensor, value: Tensor) -> None:
    """Replace the values of a tensor, which must stay on its device."""
    if not isinstance(value, PretendTensor) or not isinstance(tensor, PretendTensor):
        raise RuntimeError("Attempted to call `variable.set_data(tensor)`, but the devices differ")
    tensor.inner = value.inner


ON_DEVICE: dict[object, Callable[..., Any]] = {
    Tensor.device.__get__: device_of,
    Tensor.is_cpu.__get__: lambda tensor: False,
    Tensor.is_mps.__get__: lambda tensor: True,
    Tensor.data.__get__: lambda tensor: PretendTensor(tensor.inner),
    Tensor.data.__set__: set_data,
    Tensor.cpu: lambda tensor: move(tensor, torch.device("cpu"), None),
    Tensor.numpy: refuse_numpy,
    Tensor.__array__: refuse_numpy,
    Tensor.tolist: lambda tensor: tensor.inner.tolist(),
    Tensor.new_tensor: lambda tensor, data, dtype=None: torch.tensor(data, dtype=dtype or tensor.dtype, device=MPS),
}
"""What Python asks of a tensor, where the answer of the pretended device differs."""


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function of torch's Python interface."""
    if func is Tensor.to:
        return convert(*args, **kwargs)
    if args and is_pretended(args[0]) and func in ON_DEVICE:
        return ON_DEVICE[func](*args, **kwargs)
    return func(*args, **kwargs)


def compute(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute one operation, on the device of its tensors."""
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
    device = kwargs.get("device")
    pretended = any(map(is_pretended, tensors)) if device is None else torch.device(device).type == "mps"
    check_devices(func, args, tensors)
    if pretended and func is FULL_RANGE_DRAW and args[1] == -(1 << 63):
        raise RuntimeError("random_mps_ currently does not handle the lowest() -> max() range")
    plain_args, plain_kwargs = tree_map(strip, args), tree_map(strip, kwargs)
    if device is not None:
        plain_kwargs["device"] = torch.device("cpu")
    found = func(*plain_args, **plain_kwargs)
    if not pretended:
        return found
    return return_and_correct_aliasing(func, args, kwargs, tree_map(label, found))


def check_devices(func: Any, args: Any, tensors: list[Tensor]) -> None:
    """Refuse tensors of both devices, as torch does; numbers (tensors without dimensions) of the CPU may join."""
    if func in MAY_MIX or not any(map(is_pretended, tensors)):
        return
    if func in INDEXING and (is_pretended(args[0]) or torch._C._current_graph_task_id() >= 0):
        # In a backward pass args[0] are zeros that torch has made where it believes the tensor to be: on the CPU.
        tensors = [value for value in tree_leaves((args[2:],)) if isinstance(value, Tensor)]
    if any(not is_pretended(tensor) and tensor.dim() for tensor in tensors):
        raise RuntimeError(f"Expected all tensors to be on the same device, but found mps:0 and cpu ({func})")


class PretendFunctions(TorchFunctionMode):
    """Sees tensors of the CPU on their way to the pretended device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(func, args, kwargs or {})


class PretendOperations(TorchDispatchMode):
    """Sees new tensors that are asked for on the pretended device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


@contextmanager
def pretend_in_this_thread() -> Iterator[None]:
    """Pretend in the calling thread only."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # so that torch.tensor(…, device="mps") begins on the CPU
    try:
        with PretendFunctions(), PretendOperations():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


@contextmanager
def pretend_device() -> Iterator[torch.Generator]:
    """Let this process, with all threads it starts, have an Apple GPU; yields the generator of the device."""
    generator = torch.Generator()
    run_thread, swaps = threading.Thread.run, torch.__future__.get_swap_module_params_on_conversion()

    def run(thread: threading.Thread) -> None:
        with pretend_in_this_thread():
            run_thread(thread)

    replaced: dict[str, Any] = {
        "torch.backends.mps.is_available": lambda: True,
        "torch.mps.get_rng_state": generator.get_state,
        "torch.mps.set_rng_state": generator.set_state,
        "torch.mps.manual_seed": generator.manual_seed,
        "torch.mps.synchronize": lambda: None,
        "torch.mps.driver_allocated_memory": lambda: 1_000_000,
        "threading.Thread.run": run,
    }
    with ExitStack() as stack:
        for name, value in replaced.items():
            stack.enter_context(patch(name, value))
        torch.__future__.set_swap_module_params_on_conversion(True)  # tied weights stay tied when they move
        stack.callback(torch.__future__.set_swap_module_params_on_conversion, swaps)
        stack.enter_context(pretend_in_this_thread())
        yield generator
