"""Gives the parameters in signatures.json the types that PyTorch's schemas and annotations have for them.

    python signatures.py

What Python shows of a function is often its parameters' names alone. A function of PyTorch with a schema of its own
name (`conv1d` and `aten::conv1d`) has the types there, at parameters of the same names; a function written in Python
may have them in its source (`kernel_size: BroadcastingList2[int]`).
"""
import inspect, json, pathlib, re
import torch

HERE = pathlib.Path(__file__).parent


def split(inner):
    parts, depth, part = [], 0, ""
    for c in inner:
        depth += c in "([" and 1 or c in ")]" and -1 or 0
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [p for p in [*parts, part.strip()] if p]


def inner(text):
    at = text.find("(")
    depth = 0
    for n in range(max(at, 0), len(text)):
        depth += text[n] == "(" and 1 or text[n] == ")" and -1 or 0
        if depth == 0:
            return text[at + 1:n]
    return ""


def typed(op):
    """Parameter -> its declared type, and whole parameters in their order."""
    function = torch
    for name in op.split(".")[1:]:
        function = getattr(function, name, None)
    types, order = {}, []
    packet = getattr(torch.ops.aten, op.split(".")[-1], None)
    for overload in [] if packet is None else packet.overloads()[:1]:
        for formal in split(inner(str(getattr(packet, overload)._schema).split("::")[1])):
            order.append(formal.replace(" self", " input"))
            if formal != "*":
                ty, name = formal.split("=")[0].rsplit(" ", 1)
                types["input" if name == "self" else name] = ty
    try:
        source = inspect.getsource(function)
    except (TypeError, OSError):
        source = ""
    types |= {name: f"int[{n}]" for name, n in re.findall(r"(\w+): BroadcastingList(\d)\[int\]", source)}
    return types, order


def told(op, text):
    if not op.startswith("torch."):
        return text
    types, order = typed(op)
    if not inner(text) or "*args" in text:
        return f"{op.split('.')[-1]}({', '.join(order)})" if order else text
    parts = []
    for formal in split(inner(text)):
        left, eq, default = formal.partition("=")
        name, _, annotation = left.strip().partition(": ")
        bare = " " not in name and not name.startswith("*") and annotation in ("", "None")
        parts.append(f"{types[name]} {name}{eq and '=' + default.strip()}" if bare and name in types else formal)
    head, tail = text.split(inner(text), 1)
    return head + ", ".join(parts) + tail


path = HERE.parents[2] / "codegen/src/libraries/signatures.json"
all_of = json.loads(path.read_text())
# several overloads of one function were written by hand
path.write_text(json.dumps({op: told(op, text) if isinstance(text, str) else text for op, text in all_of.items()}, indent=0, sort_keys=True) + "\n")
