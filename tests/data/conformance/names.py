"""Writes the names that PyTorch has, which rows may list under `aten` and `torch`.

    python names.py

One line per ATen operator, its overloads behind it; one line per module of functions, the functions behind it. The
build reads the two files: a name in a row that is in neither is refused (E007).
"""
import collections, inspect, pathlib
import torch

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / "codegen/src/libraries"
MODULES = ["", "nn.functional", "special", "linalg", "fft"]


def operators():
    overloads = collections.defaultdict(set)
    for schema in torch._C._jit_get_all_schemas():
        library, _, name = schema.name.partition("::")
        if library == "aten":
            overloads[name].add(schema.overload_name)
    return {name: sorted(filter(None, given)) for name, given in overloads.items()}


def functions(module):
    found = torch
    for part in filter(None, module.split(".")):
        found = getattr(found, part)
    is_function = lambda v: callable(v) and not inspect.isclass(v)
    return sorted(n for n in dir(found) if not n.startswith("_") and is_function(getattr(found, n, None)))


def write(name, lines):
    text = "".join(" ".join([head, *rest]) + "\n" for head, rest in lines)
    (FOLDER / name).write_text(f"# PyTorch {torch.__version__.split('+')[0]}, written by names.py\n{text}")


write("aten.txt", sorted(operators().items()))
write("torch.txt", [(module or ".", functions(module)) for module in MODULES])
