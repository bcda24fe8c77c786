"""Times of the package of ten rows (`examples/torch`) beside what people write by hand in PyTorch.

Prints the time of the import, the least time of a call of 100 floats in each mode, and for larger tensors the
ratio to the same formula as calls of PyTorch, on one thread and on two; below 1 is faster. With `compiled` it prints the
ratio of both under `torch.compile` instead. The two take turns, so that both meet the same load. Nothing else should run
on the machine.

    PYTHONPATH=PACKAGE python compat/torch/tests/speed.py [import | small | large | compiled] ...
"""

import sys
import time

import torch

_start = time.perf_counter()
import ten  # noqa: E402

IMPORTED = time.perf_counter() - _start


def least(calls, seconds=0.5):
    """The least time of a call in µs, for each of the functions, which take turns."""
    best, counts = [float("inf")] * len(calls), []
    for call in calls:
        for _ in range(3):
            call()
        start = time.perf_counter()
        call()
        counts.append(max(1, int(2e-4 / (time.perf_counter() - start))))
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for at, (call, count) in enumerate(zip(calls, counts)):
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[at] = min(best[at], (time.perf_counter() - start) / count)
    return [1e6 * x for x in best]


def squareplus(x):
    return (x + torch.sqrt(x * x + 4.0)) / 2


def curve(x):
    return torch.where(x >= 0, x, torch.expm1(x))


def take_or_zero(x, index):
    inside = (index >= 0) & (index < len(x))
    return torch.where(inside, x.gather(0, index.clamp(0, len(x) - 1)), 0)


KEY = torch.tensor([0, 0])
# a row, and the same by hand
PAIRS = {
    "squareplus": (ten.squareplus, squareplus),
    "energy": (ten.energy, lambda x: (x * x).sum()),
    "extent": (lambda x: ten.extent(x, 0), lambda x: (x.amin(0), x.amax(0))),
    "take_or_zero": (lambda x, i: ten.take_or_zero(x, i, 0), take_or_zero),
    "blend": (lambda x: ten.blend(x, x, x), lambda x: x * x + (1 - x) * x),
    "add_all": (lambda x: ten.add_all([x, x, x]), lambda x: torch.stack([x, x, x]).sum(0)),
    "jitter": (lambda x: ten.jitter(x, KEY), lambda x: x + 0.5 * torch.rand_like(x)),
    "bend": (lambda x: ten.bend(x, "curve"), curve),
    "same_sign": (lambda x: ten.same_sign(x, x), lambda x: x * x > 0),
    "windows_mean": (lambda x: ten.windows_mean(x, 5), lambda x: x.unfold(-1, 5, 1).mean(-1)),
}


def arguments(name, size):
    """A tensor for the row, and an index where it takes one, of which some places lie outside."""
    x = torch.rand(size) - 0.5
    return (x, torch.randint(-size // 8, size + size // 8, (size,))) if name == "take_or_zero" else (x,)


def small():
    modes = {"inference_mode": torch.inference_mode, "a plain call": torch.enable_grad, "requires_grad": torch.enable_grad}
    for name, (row, hand) in PAIRS.items():
        given, said = arguments(name, 100), []
        for way, mode in modes.items():
            if way == "requires_grad":
                given[0].requires_grad_()
            with mode():
                own, other = least([lambda: row(*given), lambda: hand(*given)], 0.3)
            said.append(f"{way} {own:.1f} µs, by hand {other:.1f}")
        print(f"{name} of 100 floats: {'; '.join(said)}")


def large():
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for size in (100_000, 10_000_000):
            for name, (row, hand) in PAIRS.items():
                given = arguments(name, size)
                with torch.inference_mode():
                    own, other = least([lambda: row(*given), lambda: hand(*given)])
                print(f"{name}, {size:.0e} floats, {threads} threads: {own:.0f} µs, by hand {other:.0f}: {own / other:.2f}")


def compiled():
    torch.set_num_threads(1)
    for name, (row, hand) in PAIRS.items():
        given = arguments(name, 1_000_000)
        both = [torch.compile(f, fullgraph=True) for f in (row, hand)]
        with torch.inference_mode():
            own, other = least([lambda: both[0](*given), lambda: both[1](*given)])
        print(f"{name}, 1e6 floats, compiled: {own:.0f} µs, by hand {other:.0f}: {own / other:.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or ["import", "small", "large"]
    if "import" in wanted:
        print(f"import: {1e3 * IMPORTED:.0f} ms")
    for part in (small, large, compiled):
        if part.__name__ in wanted:
            part()
