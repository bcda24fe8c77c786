"""The compiled library of the package, and what is the same for every framework.

A program is a row with its options, or the derivative, the batch or one result of a program.
"""

import ctypes
import functools
import json
import math
import re


class Library:
    """The compiled library of the package."""

    def __init__(self, path):
        self.functions = c = ctypes.CDLL(path)
        c.fulgurite_error.restype = ctypes.c_char_p
        for function in (c.fulgurite_types, c.fulgurite_decomposition, c.fulgurite_reads):
            function.restype = ctypes.c_void_p
        c.fulgurite_free.argtypes = [ctypes.c_void_p]

    def error(self):
        return self.functions.fulgurite_error().decode()

    def types(self, program, tensors, sizes, hint, require):
        """The name of the dtype and the sizes of each result of a program on tensors, which are such pairs themselves.

        A size that is no `int` is a symbol: `hint` gives its present value, and `require` is called with each condition on
        symbols under which the answer holds, and with its text.
        """
        answer, symbols = self._ask(self.functions.fulgurite_types, {}, program, tensors, sizes, hint, require)

        def value(n):
            return n if isinstance(n, int) else eval(n, {}, symbols)

        return [(dtype, [value(n) for n in shape]) for dtype, shape in answer["types"]]

    def reads(self, program, tensors, sizes, hint, require):
        """The numbers of the tensors that a program reads; the arguments are those of `types`."""
        return self._ask(self.functions.fulgurite_reads, {}, program, tensors, sizes, hint, require)[0]["reads"]

    def decomposition(self, library, program, tensors, sizes, hint, require, has_64=True):
        """A program as a function of a device and arrays, which calls an array library, `torch` or `jnp`; None if it stays
        a kernel. `has_64` says whether the library has dtypes of 64 bits at present. The other arguments are those of
        `types`."""
        function, library = self.functions.fulgurite_decomposition, {"library": library}
        answer, symbols = self._ask(function, library, program, tensors, sizes, hint, require)
        # numbers of 64 bits would wrap without an error
        if answer is None or not has_64 and re.search("(int|float)64", answer["text"]):
            return None
        return functools.partial(_defined(answer["text"]), **symbols)

    def _ask(self, function, request, program, tensors, sizes, hint, require):
        """The answer to a request, and the values of the names in it."""
        symbols = {}

        def size(n):
            if isinstance(n, int):
                return n
            present = hint(n)
            if present < 0:  # no size, but a word such as -1 for the axis that the row infers
                return int(n)
            name = f"s{len(symbols)}"
            symbols[name] = n
            return [present, name]

        types = [[dtype, [size(n) for n in shape]] for dtype, shape in tensors]
        request = {**request, "program": program, "tensors": types, "sizes": [size(n) for n in sizes]}
        answer = function(json.dumps(request).encode())
        if not answer:
            raise RuntimeError(self.error())
        answer, text = json.loads(ctypes.string_at(answer)), answer
        self.functions.fulgurite_free(text)
        for guard in answer["guards"] if answer else ():
            said = re.sub(r"\bs\d+", lambda name: f"({symbols[name[0]]})", guard)
            require(eval(guard, {}, symbols), f"the sizes must satisfy {said}")
        return answer, symbols


@functools.lru_cache(maxsize=1024)
def _defined(text):
    """The function that a text of the library defines."""
    names = {}
    exec(text, names)
    return names["decomposition"]


def argument(letter, value, tensors, sizes, dtype_name):
    """The argument of a row in a program; its tensors and sizes are numbered."""
    if value is None:
        return None
    kind = letter.upper()
    if kind == "T":
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if kind == "K":
        return {**argument("T", value, tensors, sizes, dtype_name), "key": True}
    if kind == "X":
        return [argument("T", item, tensors, sizes, dtype_name) for item in value]
    if kind == "Z":
        sizes.append(value)
        return {"size": len(sizes) - 1}
    if kind == "M":
        return [argument("Z", item, tensors, sizes, dtype_name) for item in value]
    if kind == "F" or kind == "N" and isinstance(value, float):
        return {"float": _text(value)}
    if kind == "D":
        return {"dtype": dtype_name(value)}
    if kind == "R" and len(value) == 1:
        return value[0]
    return list(value) if kind in "LR" else value


def _text(x):
    return "nan" if math.isnan(x) else ("inf" if x > 0 else "-inf") if math.isinf(x) else repr(float(x))


def keys_of(what):
    """The numbers of the tensors of a program that are keys."""
    if "row" in what:
        return [word["tensor"] for word in what["args"] if isinstance(word, dict) and "key" in word]
    if "vjp" in what:
        unread = what.get("unread", {})
        given = [i for i in range(what["inputs"]) if i not in unread and str(i) not in unread]
        return [given.index(i) for i in keys_of(what["vjp"]) if i in given]
    return keys_of(what[next(kind for kind in ("jvp", "vmap", "pick") if kind in what)])
