"""Operators of a database for PyTorch: everything that is the same for every operator.

The library of the package knows rows. This module registers each one with PyTorch's dispatcher:

    CPU       a kernel of the library
    CUDA      the same kernel, on PyTorch's stream and in its memory
    Meta      the types of results, solved by the library with symbolic sizes
    Autograd  derivatives, which are programs: of every order, in both modes, under torch.func
    vmap      batches, which are programs too
    tracing   the operators of PyTorch that a program is made of, which compilers fuse

A program is a row with its options, or the derivative, the batch or one result of a program. One operator for each number
of tensors, `_program<n>(str program, SymInt[] sizes, Tensor x0, ...)`, runs them all, so a derivative has derivatives and
batches like any operator.
"""

import functools
import glob
import json
import os

import torch
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, proxy_call

from ._library import Library, argument, keys_of

_functorch = torch._C._functorch
_below = torch._C._AutoDispatchBelowAutograd
_after_autograd = torch._C._after_autograd_keyset
_any_requires_grad = torch._C._any_requires_grad

_DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2, "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "bool": torch.bool, "f8e4m3fnuz": torch.float8_e4m3fnuz, "f8e5m2fnuz": torch.float8_e5m2fnuz,
    "f8e8m0fnu": torch.float8_e8m0fnu, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class TorchLibrary(Library):
    """The library, which registers kernels with PyTorch."""

    def __init__(self, path):
        super().__init__(path)
        folder = os.path.dirname(torch.__file__)
        # kernels for CUDA devices are compiled by the compiler that comes with PyTorch
        if (compiler := _nvrtc(os.path.dirname(folder))) is not None:
            os.environ.setdefault("FULGURITE_NVRTC", compiler)
        self._torch = os.path.join(folder, "lib", "libtorch_cpu.so").encode()

    def register(self, namespace, name, row, letters, is_list):
        text = "\n".join([namespace, name, row, letters, "list" if is_list else ""])
        if self.functions.fulgurite_torch_operator(self._torch, text.encode()) < 0:
            raise ImportError(f"{namespace}::{name}: {self.error()}")

    def result_types(self, program, tensors, sizes):
        """The dtype and sizes of each result; the sizes of tensors may be symbolic."""
        types = [(_name(t.dtype), t.shape) for t in tensors]
        return [(_dtype(name), shape) for name, shape in self.types(program, types, sizes, _hint, _require)]

    def read_tensors(self, program, tensors, sizes):
        """The numbers of the tensors that a program reads."""
        return self.reads(program, [(_name(t.dtype), t.shape) for t in tensors], sizes, _hint, _require)

    def operators_of(self, program, tensors, sizes):
        """The program as a function without arguments, which calls PyTorch's operators; None if it stays a kernel."""
        types = [(_name(t.dtype), t.shape) for t in tensors]
        function = self.decomposition("torch", program, types, sizes, _hint, _require)
        return function and functools.partial(function, _device(tensors), *tensors)


def _nvrtc(packages):
    """The file of NVIDIA's compiler among the packages that PyTorch needs; None if it is not there."""
    for place in ("nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib"):
        for file in sorted(glob.glob(os.path.join(packages, place, "libnvrtc.so.*"))):
            if ".alt." not in file:
                return file
    return None


def _device(tensors):
    """The device of the results: that of the tensors, of which those of rank 0 may lie on the processor."""
    for t in tensors:
        if t.device.type != "cpu":
            return t.device
    return tensors[0].device if tensors else "cpu"


def _require(holds, text):
    torch._check(holds, lambda: text)


def tensor(x):
    """A number as a tensor of rank 0, whose dtype follows those of other tensors; anything else as it is."""
    if isinstance(x, (bool, int)):
        return torch.tensor(x)
    return torch.tensor(x, dtype=torch.float64) if isinstance(x, float) else x


def ints(x):
    """A single integer as a list of one."""
    return [x] if isinstance(x, (int, torch.SymInt)) else x


def _name(dtype):
    """The name of a dtype for the library, which refuses those that rows do not take."""
    return _NAMES.get(dtype) or str(dtype).removeprefix("torch.")


def _dtype(name):
    try:
        return _DTYPES[name]
    except KeyError:
        raise RuntimeError(f"the row gives {name}, which PyTorch does not have [E702]\n  help: use the row from Rust") from None


def _fixed(letter, value):
    """The value of an argument; a symbolic number that is no size is fixed to its present value."""
    if letter.upper() in "IN" and isinstance(value, torch.SymInt):
        return int(value)
    return float(value) if letter.upper() in "FN" and isinstance(value, torch.SymFloat) else value


def _hint(n):
    """The present value of a symbolic size; some size, if it has none yet."""
    node = n.node
    return node.hint if node.has_hint() else 8191


_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def _cast(arg, to):
    if isinstance(arg, (list, tuple)):
        return [_cast(item, to) for item in arg]
    return arg.to(to) if isinstance(arg, torch.Tensor) and arg.dtype in _NARROW else arg


class _Keys:
    """The keys of a dispatch, as an argument that autograd passes on."""

    __slots__ = ("keys",)

    def __init__(self, keys):
        self.keys = keys


def _nested():
    stack = _functorch.get_interpreter_stack() or []
    kinds = _functorch.TransformType
    return sum(level.key() in (kinds.Grad, kinds.Jvp) for level in stack) > 1


class Operators:
    """The operators of a namespace."""

    def __init__(self, namespace, library):
        self.namespace, self.library = namespace, library
        self.fragment = torch.library.Library(namespace, "FRAGMENT")
        self._programs = {}

    def program(self, program, sizes, tensors, results):
        """The results of a program, given as text."""
        form = len(tensors), results
        op = self._programs.get(form)
        if op is None:
            op = self._programs[form] = self._register_program(*form)
        made = op(program, sizes, *tensors)
        return [made] if results == 1 else list(made)

    def _register_program(self, tensors, results):
        arguments = ["str program", "SymInt[] sizes", *(f"Tensor x{i}" for i in range(tensors))]
        returns = "Tensor" if results == 1 else "(" + ", ".join(["Tensor"] * results) + ")"

        def read(args):
            return json.loads(args[0]), list(args[1]), list(args[2:])

        name = f"_program{tensors}_{results}"
        return _Operator(self, name, "", f"({', '.join(arguments)}) -> {returns}", "PM" + "T" * tensors, read).register()

    def row(self, row, name, schema, letters, differentiable=True, autocast=None):
        """Registers the row under this name; returns the operator."""

        def read(args):
            tensors, sizes = [], []
            words = [argument(letter, _fixed(letter, x), tensors, sizes, _name) for letter, x in zip(letters, args)]
            return {"row": row, "args": words}, sizes, tensors

        operator = _Operator(self, name, row, schema, letters, read, differentiable)
        operator.register()
        if autocast:
            for device in ("cpu", "cuda"):
                self.fragment.impl(name, operator.autocast(device, autocast), "Autocast" + device.upper())
        return operator.op


class _Plan:
    """The programs of the derivatives of a call, and the tensors that they read."""

    __slots__ = "what", "sizes", "places", "floats", "count", "kept", "unread", "texts"

    def __init__(self, operator, needed, inputs, outs):
        self.what, self.sizes, tensors = operator.read(_nest(operator.letters, inputs))
        self.places = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        self.floats, self.count = [i for i, out in enumerate(outs) if out.is_floating_point()], len(outs)
        self.kept, self.unread, self.texts = self.places, {}, {}
        of = self.numbers(needed)
        if of and self.floats:
            vjp = {"vjp": self.what, "inputs": len(tensors), "of": of, "results": self.floats}
            read = operator.operators.library.read_tensors(vjp, [*tensors, *(outs[i] for i in self.floats)], self.sizes)
            self.kept = [place for i, place in enumerate(self.places) if i in read]
            for i, x in enumerate(tensors):
                if i not in read:
                    first = len(self.sizes)
                    self.sizes += x.shape
                    self.unread[i] = [_name(x.dtype), list(range(first, len(self.sizes)))]

    def numbers(self, needed):
        """The numbers of the tensors by which the call is differentiated."""
        return [i for i, place in enumerate(self.places) if needed[place]]

    def backward(self, needed):
        """The text of the derivative by the inputs that need it, and their places."""
        found = self.texts.get(needed)
        if found is None:
            of = self.numbers(needed)
            what = {"vjp": self.what, "inputs": len(self.places), "of": of, "results": self.floats, "unread": self.unread}
            found = self.texts[needed] = json.dumps(what), [self.places[i] for i in of]
        return found


class _Operator:
    """An operator: `read` gives the program, sizes and tensors of its arguments."""

    def __init__(self, operators, name, row, schema, letters, read, differentiable=True):
        self.operators, self.name, self.row, self.letters, self.read = operators, name, row, letters, read
        self.full, self.differentiable = f"{operators.namespace}::{name}", differentiable
        operators.fragment.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        self.op = getattr(getattr(torch.ops, operators.namespace), name).default
        self.arguments, returns = self.op._schema.arguments, self.op._schema.returns
        self.plans = {}
        self.is_list = len(returns) == 1 and "List" in str(returns[0].type)
        self.count = None if self.is_list else len(returns)

    def register(self):
        operators, fragment = self.operators, self.operators.fragment
        if "N" in self.letters.upper():
            # the C interface of PyTorch has no numbers of any kind
            for key in ("CPU", "CUDA"):
                fragment.impl(self.name, self.run_program, key)
        else:
            operators.library.register(operators.namespace, self.name, self.row, self.letters, self.is_list)
        if not any(letter in "TK" for letter in self.letters):
            # a call without tensors, whose lists are empty and whose optional ones are absent, has no device of its own
            fragment.impl(self.name, self.without_tensors, "CompositeExplicitAutograd")
        torch.library.register_fake(self.full, self.fake, lib=fragment)
        torch.library.register_vmap(self.full, self.batched, lib=fragment)
        torch.library.register_torch_dispatch(self.full, ProxyTorchDispatchMode, self.traced, lib=fragment)
        fragment.impl(self.name, self.autograd() if self.differentiable else self.constant, "Autograd", with_keyset=True)
        return self.op

    def complete(self, args):
        rest = self.arguments[len(args) :]
        return [*args, *(a.default_value for a in rest)] if rest else args

    def results(self, values):
        return list(values) if self.is_list else values[0] if self.count == 1 else tuple(values)

    def types(self, what, sizes, tensors):
        return self.operators.library.result_types(what, tensors, sizes)

    def plan(self, needed, inputs, outs):
        """The plan of the derivatives of a call; calls of equal types and options share it."""
        key = [needed]
        for x in inputs:
            if isinstance(x, torch.Tensor):
                key += (x.dtype, x.shape)
            elif isinstance(x, float):
                key.append(repr(x))  # 0.0 and -0.0 are equal, and NaN is not
            elif isinstance(x, (list, tuple)):
                key.append(tuple(x))
            else:  # 1 and True are equal
                key += (type(x), x.length if isinstance(x, _List) else x)
        key = tuple(key)
        try:
            found = self.plans.get(key)
        except TypeError:  # symbolic sizes have no hash
            return _Plan(self, needed, inputs, outs)
        if found is None:
            if len(self.plans) >= 4096:  # bounds memory
                self.plans.clear()
            found = self.plans[key] = _Plan(self, needed, inputs, outs)
        return found

    def run_program(self, *args):
        what, sizes, tensors = self.read(self.complete(args))
        count = self.count or len(self.types(what, sizes, tensors))
        return self.results(self.operators.program(json.dumps(what), sizes, tensors, count))

    def without_tensors(self, *args):
        if tensors := self.read(self.complete(args))[2]:
            raise NotImplementedError(f"{self.full} has no kernel for tensors of {tensors[0].device}")
        return self.op.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args)

    def fake(self, *args):
        what, sizes, tensors = self.read(self.complete(args))
        device = _device(tensors)
        types = self.types(what, sizes, tensors)
        return self.results([torch.empty(shape, dtype=dtype, device=device) for dtype, shape in types])

    def traced(self, mode, op, types, args, kwargs):
        """What a trace of PyTorch's compiler records: the operators of the decomposition, or this operator.

        Above autograd (export before autograd) it records this operator, because autograd has its derivatives.
        """
        if not mode.pre_dispatch:
            program, sizes, tensors = self.read(self.complete(args))
            function = self.operators.library.operators_of(program, tensors, sizes)
            if function is not None:
                with mode:
                    return self.results(function())
        return proxy_call(mode, op, mode.pre_dispatch, args, kwargs or {})

    def batched(self, info, in_dims, *args):
        args = self.complete(args)
        what, sizes, tensors = self.read(args)
        in_dims = [*in_dims, *([None] * (len(args) - len(in_dims)))]
        axes = _leaves(self.letters, in_dims, args)
        if any(axes[i] is not None for i in keys_of(what)):
            return self.one_by_one(info.batch_size, in_dims, args)
        what = {"vmap": what, "axes": axes}
        try:
            count = self.count or len(self.types(what, sizes, tensors))
            made = self.operators.program(json.dumps(what), sizes, tensors, count)
        except RuntimeError as e:
            if "[E726]" not in str(e):
                raise
            return self.one_by_one(info.batch_size, in_dims, args)
        return self.results(made), self.results([0] * count)

    def one_by_one(self, size, in_dims, args):
        """A batch that the library does not take, such as one whose slices have keys of their own: its calls in a loop."""
        made = [self.op(*(_slice(x, axis, i) for x, axis in zip(args, in_dims))) for i in range(size)]
        if self.count == 1:
            return torch.stack(made), 0
        made = [torch.stack(same) for same in zip(*made)]
        return self.results(made), self.results([0] * len(made))

    def autocast(self, device, kind):
        """The kernel of autocast: narrow floats become those of the row's class; f64 is an explicit choice and stays."""
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, "Autocast" + device.upper()))

        def kernel(*args):
            floats = [t.dtype for t in self.read(self.complete(args))[2] if t.dtype in _NARROW]
            if floats:
                lower = torch.get_autocast_dtype(device) if kind == "lower" else torch.float32
                to = functools.reduce(torch.promote_types, floats) if kind == "promote" else lower
                args = [_cast(arg, to) for arg in args]
            with torch._C._ExcludeDispatchKeyGuard(keys):
                return self.op(*args)

        return kernel

    def constant(self, keys, *args):
        """The kernel of autograd for an operator without derivatives."""
        with _below():
            return self.op.redispatch(keys & _after_autograd, *args)

    def autograd(self):
        """The kernel of autograd: its function has programs as its derivatives.

        It is made of the parts of `torch.library.register_autograd`, which has no forward mode.
        """
        op, letters, is_list, program = self.op, self.letters, self.is_list, self.operators.program

        class Function(_SingleLevelFunction):
            @staticmethod
            def forward(*args):
                *args, keys = args
                with _below():
                    made = op.redispatch(keys.keys & _after_autograd, *_nest(letters, args))
                    return tuple(made) if is_list else made

            @staticmethod
            def setup_context(ctx, inputs, output):
                outs = output if isinstance(output, tuple) else (output,)
                ctx.plan = plan = self.plan(ctx.needs_input_grad, inputs[:-1], outs)
                if len(plan.floats) < len(outs):
                    ctx.mark_non_differentiable(*(out for out in outs if not out.is_floating_point()))
                ctx.save_for_backward(*(inputs[place] for place in plan.kept))
                if forward_ad._current_level >= 0 or _functorch.peek_interpreter_stack() is not None:
                    ctx.save_for_forward(*(inputs[place] for place in plan.places))

            @staticmethod
            def backward(ctx, *cotangents):
                plan, found = ctx.plan, [None] * len(ctx.needs_input_grad)
                text, of = plan.backward(ctx.needs_input_grad)
                made = program(text, plan.sizes, [*ctx.saved_tensors, *(cotangents[k] for k in plan.floats)], len(of))
                for place, grad in zip(of, made):
                    found[place] = grad
                return tuple(found)

            @staticmethod
            def jvp(ctx, *tangents):
                if _nested():
                    raise NotImplementedError(
                        f"{self.full}: forward mode below another derivative is wrong without an error in PyTorch "
                        "(pytorch#197867); use reverse mode inside"
                    )
                plan, tensors = ctx.plan, ctx.saved_tensors
                tangents = [tangents[place] for place in plan.places]
                of = [i for i, tangent in enumerate(tangents) if tangent is not None]
                what = json.dumps({"jvp": plan.what, "inputs": len(tensors), "of": of})
                made = program(what, plan.sizes, [*tensors, *(tangents[i] for i in of)], plan.count)
                made = [tangent if i in plan.floats else None for i, tangent in enumerate(made)]
                return tuple(made) if is_list or len(made) > 1 else made[0]

        Function.__name__ = Function.__qualname__ = self.full.replace("::", "_")
        allowed = _functorch.get_single_level_autograd_function_allowed
        allow = _functorch.set_single_level_autograd_function_allowed
        grad_enabled, peek, apply = torch.is_grad_enabled, _functorch.peek_interpreter_stack, Function.apply

        def kernel(keys, *args):
            if peek() is None and forward_ad._current_level < 0 and not (grad_enabled() and _any_requires_grad(*args)):
                with _below():
                    return op.redispatch(keys & _after_autograd, *args)
            before = allowed()
            allow(True)
            try:
                made = apply(*_spread(letters, self.complete(args)), _Keys(keys))
                return list(made) if is_list else made
            finally:
                allow(before)

        return kernel


def _slice(x, axis, i):
    if isinstance(x, (list, tuple)) and isinstance(axis, (list, tuple)):
        return [_slice(*item, i) for item in zip(x, axis)]
    return x if axis is None else x.select(axis, i)


def _leaves(letters, values, args):
    """One value for each tensor among the arguments."""
    found = []
    for letter, value, arg in zip(letters, values, args):
        if arg is None:
            continue
        if letter.upper() in "TK":
            found.append(value)
        elif letter.upper() == "X":
            found += value if isinstance(value, (list, tuple)) else [value] * len(arg)
    return found


class _List:
    """The length of a list of tensors whose items follow as arguments of their own, because autograd looks into none."""

    __slots__ = ("length",)

    def __init__(self, length):
        self.length = length


def _spread(letters, args):
    if "X" not in letters:
        return args
    flat = []
    for letter, arg in zip(letters, args):
        if letter == "X":
            flat += [_List(len(arg)), *arg]
        else:
            flat.append(arg)
    return flat


def _nest(letters, flat):
    if "X" not in letters:
        return flat
    args, rest = [], list(flat)
    while rest:
        first = rest.pop(0)
        if isinstance(first, _List):
            args.append(rest[: first.length])
            rest = rest[first.length :]
        else:
            args.append(first)
    return args
