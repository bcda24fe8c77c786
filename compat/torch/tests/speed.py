"""Times of the package of ten rows (`examples/torch`) beside what people write by hand in PyTorch.

Prints the least time of a call of 100 floats in each way of calling, and for larger tensors the ratio to the same
formula as calls of PyTorch, on one thread and on two; below 1 is faster. The two take turns, so that both meet the same
load. Nothing else should run on the machine.

    PYTHONPATH=PACKAGE python compat/torch/tests/speed.py
"""

import time

import torch

import ten


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


PAIRS = {
    "squareplus": (ten.squareplus, squareplus),
    "energy": (ten.energy, lambda x: (x * x).sum()),
    "extent": (lambda x: ten.extent(x, 0), lambda x: (x.amin(0), x.amax(0))),
    "blend": (lambda x: ten.blend(x, x, x), lambda x: x * x + (1 - x) * x),
    "bend": (lambda x: ten.bend(x, "curve"), curve),
    "same_sign": (lambda x: ten.same_sign(x, x), lambda x: x * x > 0),
    "windows_mean": (lambda x: ten.windows_mean(x, 5), lambda x: x.unfold(-1, 5, 1).mean(-1)),
}


def small():
    x, leaf = torch.rand(100), torch.rand(100, requires_grad=True)
    ways = {"inference_mode": torch.inference_mode, "no_grad": torch.no_grad, "a plain call": torch.enable_grad}
    for name, mode in ways.items():
        with mode():
            own, hand, neg = least([lambda: ten.squareplus(x), lambda: squareplus(x), lambda: torch.neg(x)])
        print(f"squareplus of 100 floats, {name}: {own:.1f} µs; by hand {hand:.1f}, torch.neg {neg:.1f}")
    own, hand = least([lambda: ten.squareplus(leaf), lambda: squareplus(leaf)])
    print(f"squareplus of 100 floats, requires_grad: {own:.1f} µs; by hand {hand:.1f}")


def large():
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for size in (100_000, 10_000_000):
            x = torch.rand(size) - 0.5
            for name, (row, hand) in PAIRS.items():
                with torch.inference_mode():
                    own, other = least([lambda: row(x), lambda: hand(x)])
                print(f"{name}, {size:.0e} floats, {threads} threads: {own:.0f} µs, by hand {other:.0f}: {own / other:.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    small()
    large()
