"""Asks PyTorch about calls near recorded ones, and keeps the answers that tell wrong rows from right ones.

    python around.py ask CASES.jsonl… OUT      near calls of these cases, and PyTorch's answers: OUT/conformance/{cases,expect}.jsonl
    cargo ops mutate --json --recorded OUT > REPORT
    python around.py keep REPORT OUT           cases.jsonl, expect.jsonl here: those that REPORT names

A near call differs in one thing: an element type, a size, a value, an option, an argument that is there or not. What a
row accepts and refuses beside a call that works is where wrong rows hide.
"""
import json, math, multiprocessing, pathlib, random, re, sys, warnings
import torch

HERE = pathlib.Path(__file__).parent
DT = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
      "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
NAME = {v: k for k, v in DT.items()}
SIGNATURES = json.loads((HERE.parents[2] / "codegen/src/libraries/signatures.json").read_text())
MOST = 6  # cases of one operator that others are near to
SMALL = 60  # elements of a tensor


def tensor(o):
    if "hex" in o:
        raw = bytearray(bytes.fromhex(o["hex"]))
        t = torch.frombuffer(raw, dtype=DT[o["dtype"]]).clone() if raw else torch.zeros(0, dtype=DT[o["dtype"]])
        t = t.reshape(o["shape"])
    else:
        wide = torch.float64 if DT[o["dtype"]].is_floating_point else torch.int64
        t = torch.tensor([float(x) if wide.is_floating_point else x for x in o["data"]], dtype=wide).to(DT[o["dtype"]]).reshape(o["shape"])
    if "view" in o:
        t = torch.as_strided(t, o["view"]["shape"], o["view"]["stride"], o["view"]["offset"])
    return t.contiguous()


def put(v):
    if isinstance(v, torch.Tensor):
        v = v.detach()
        v = torch.zeros(v.shape, dtype=v.dtype) if v._is_zerotensor() else v.resolve_conj().resolve_neg().contiguous()
        flat = v.reshape(-1).tolist()
        o = {"dtype": NAME[v.dtype], "shape": list(v.shape)}
        whole = all(isinstance(x, int) or math.isfinite(x) and x == int(x) and abs(x) < 1e6 and (x != 0 or math.copysign(1, x) > 0) for x in flat)
        if whole:
            return {**o, "data": [int(x) for x in flat]}
        return {**o, "hex": v.reshape(-1).view(torch.uint8).numpy().tobytes().hex()}
    if isinstance(v, float):
        return {"float": v if math.isfinite(v) else "nan" if math.isnan(v) else "inf" if v > 0 else "-inf"}
    if isinstance(v, torch.dtype):
        return {"dtype": NAME[v]}
    return v


def value(v, tensors):
    if isinstance(v, list):
        return [value(x, tensors) for x in v]
    if isinstance(v, dict):
        return tensors[v["t"]] if "t" in v else float(v["float"]) if "float" in v else DT[v["dtype"]]
    return v


def resolve(op):
    p = op.split(".")
    if p[0] == "aten":
        return getattr(getattr(torch.ops.aten, p[1]), p[2])
    o = torch
    for q in p[1:]:
        o = getattr(o, q)
    return o


def flat(o):
    return [x for y in o for x in flat(y)] if isinstance(o, (list, tuple)) else [o]


def formals(op):
    """Names, types and defaults of parameters."""
    text = SIGNATURES.get(op, "")
    inner, depth = "", 0
    for c in text[text.find("(") + 1:] if "(" in text else "":
        if c == ")" and depth == 0:
            break
        depth += (c in "([") - (c in ")]")
        inner += "\0" if c == "," and depth == 0 else c
    out = []
    for part in filter(None, (p.strip() for p in inner.split("\0"))):
        if part == "*":
            continue
        left, _, default = part.partition("=")
        left = left.strip()
        name, ty = left.split(": ", 1) if ": " in left else left.rsplit(" ", 1)[::-1] if " " in left else (left, "")
        out.append((name, ty, default.strip() if "=" in part else None))
    return out


def of_tensor(t, rng):
    """Tensors near this one."""
    for d in DT.values():
        if d != t.dtype:
            yield t.to(d)
    n = t.dim()
    yield t.unsqueeze(0)
    yield t.unsqueeze(-1)
    yield torch.stack([t, t.flip(0) if n else t])
    if t.numel():
        yield t.reshape(-1)[0]
        yield t.reshape(-1)[:1]
        yield t.reshape(-1)
    for k in range(n):
        size = t.shape[k]
        yield t.narrow(k, 0, 0)
        if size > 1:
            yield t.narrow(k, 0, 1)
            yield t.narrow(k, 0, size - 1)
        yield torch.cat([t, t.narrow(k, 0, min(1, size))], k)
        yield t.select(k, 0) if size else t
        for j in range(k):
            yield t.transpose(j, k)
    if not t.numel():
        yield torch.ones([max(1, s) for s in t.shape], dtype=t.dtype)
        return
    if t.dtype == torch.bool:
        yield ~t
        yield torch.zeros_like(t)
        yield torch.ones_like(t)
        return
    yield t.flip(0) if n else t
    yield torch.zeros_like(t)
    yield torch.ones_like(t)
    one = t.clone().reshape(-1)
    if t.is_floating_point():
        for v in (math.nan, math.inf, -math.inf, 0.0, 1.0, -1.0, 0.5, 2.0, 30.0, -30.0, 1e-3):
            one[-1] = v
            yield one.clone().reshape(t.shape)
        yield -t
        yield t.round()
        yield t * 8
        yield torch.full_like(t, math.nan)
        yield torch.full_like(t, math.inf)
        yield t.abs() / (t.abs().amax() + 1)
        yield torch.tensor([rng.choice([-2, -1.5, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2, 3]) for _ in range(t.numel())]).to(t.dtype).reshape(t.shape)
        yield torch.linspace(0.05, 0.95, t.numel()).to(t.dtype).reshape(t.shape)
    else:
        for v in (0, 1, -1, 2, 3, -2, 7, -7):
            if v < 0 and t.dtype == torch.uint8:
                continue
            one[-1] = v
            yield one.clone().reshape(t.shape)
        yield t + 1
        yield t - 1
        yield torch.arange(t.numel()).to(t.dtype).reshape(t.shape) % 3
        yield t.sort(-1).values if n else t


def of_value(v, words):
    """Values near this one."""
    if isinstance(v, bool):
        yield from (not v, None, int(v))
    elif isinstance(v, int):
        yield from (v + 1, v - 1, v + 2, -v, -v - 1, 0, 1, 2, -1, -2, 7, -7, None, [v], [v, v], float(v), v + 0.5, True)
    elif isinstance(v, float):
        yield from (v * 2, -v, 0.0, 1.0, 0.5, 2.0, v + 0.3, math.inf, math.nan, -1.0, int(v) if math.isfinite(v) else 1, 3, None)
    elif isinstance(v, str):
        yield from words
        yield None
    elif isinstance(v, torch.dtype):
        yield from [d for d in DT.values() if d != v]
        yield None
    elif isinstance(v, list) and all(isinstance(x, int) and not isinstance(x, bool) for x in v):
        yield from ([], None)
        if v:
            yield from (v[0], v[:1], v[:-1], v[1:], v + v[-1:], v[::-1], v[1:] + v[:1], [x + 1 for x in v], [x - 1 for x in v], [-x for x in v], [x * 2 for x in v], [0] * len(v), [1] * len(v), [-1] * len(v), v + v)
            for k in range(len(v)):
                for x in (v[k] + 1, v[k] - 1, v[k] + 2, 0, -1, v[k] - 7):
                    yield v[:k] + [x] + v[k + 1:]
        else:
            yield from ([0], [1], [0, 1], [-1], 0, 1)
    elif isinstance(v, list) and v and all(isinstance(x, float) for x in v):
        yield from (v[0], v[:1], v + v[-1:], [x * 2 for x in v], None)
    elif isinstance(v, list) and v and all(isinstance(x, torch.Tensor) or x is None for x in v):
        yield from (v[:1], v[:-1], v[::-1], v + v[-1:], [])
        for k, x in enumerate(v):
            if isinstance(x, torch.Tensor):
                yield from (v[:k] + [x.to(d)] + v[k + 1:] for d in DT.values() if d != x.dtype)
                yield v[:k] + [x.unsqueeze(0)] + v[k + 1:]
                if x.dim():
                    yield v[:k] + [x.narrow(0, 0, 0)] + v[k + 1:]
                    yield v[:k] + [x.narrow(-1, 0, x.shape[-1] - 1 if x.shape[-1] else 0)] + v[k + 1:]
    elif isinstance(v, list) and v and all(isinstance(x, bool) for x in v):
        for k in range(len(v)):
            yield v[:k] + [not v[k]] + v[k + 1:]


def other(ty, default, words):
    """Values for a parameter that a call leaves out."""
    if default in ("True", "False"):
        return [default != "True", default == "True"]
    if "Tensor" in ty and "[]" not in ty:
        return [None]
    if default and re.fullmatch(r"-?\d+", default):
        return [int(default), int(default) + 1, -1, 2, 0]
    if default and re.fullmatch(r"-?[\d.]+(e-?\d+)?", default):
        return [float(default), float(default) * 2 + 0.5, -1.0, 0.3]
    if "bool" in ty:
        return [True, False, None]
    if "int" in ty or "SymInt" in ty:
        return [0, 1, -1, 2, None] + ([[0], [1, 0], [2, 2], []] if "[" in ty else [])
    if "ScalarType" in ty or "dtype" in ty:
        return [torch.float64, torch.float32, torch.int64, torch.bool, torch.float16]
    if "float" in ty or "Scalar" in ty:
        return [0.5, 2, -1.0]
    if "str" in ty or (default or "").startswith(("'", '"')):
        return words
    return [None] if default == "None" else []


def near(case, words, rng):
    tensors = [tensor(o) for o in case["tensors"]]
    args, kwargs = value(case["args"], tensors), {k: value(v, tensors) for k, v in case["kwargs"].items()}
    if any(t.numel() > SMALL for t in tensors):
        return
    yield args, kwargs
    places = [(args, k) for k in range(len(args))] + [(kwargs, k) for k in kwargs]
    for where, k in places:
        v = where[k]
        news = of_tensor(v, rng) if isinstance(v, torch.Tensor) else of_value(v, words)
        for new in news:
            a, b = list(args), dict(kwargs)
            (a if where is args else b)[k] = new
            yield a, b
        if isinstance(v, torch.Tensor):
            for new in (None, v.reshape(-1)[0].item() if v.numel() else 1, 2, 0.5, True):
                a, b = list(args), dict(kwargs)
                (a if where is args else b)[k] = new
                yield a, b
    # all tensors together
    def whole(change):
        inside = lambda v: change(v) if isinstance(v, torch.Tensor) else [inside(x) for x in v] if isinstance(v, list) else v
        return [inside(v) for v in args], {k: inside(v) for k, v in kwargs.items()}
    for d in DT.values():
        yield whole(lambda t: t.to(d))
        yield whole(lambda t: t.to(d) if t.is_floating_point() else t)
    for k in range(3):
        yield whole(lambda t: t.narrow(k, 0, 0) if t.dim() > k else t)
        yield whole(lambda t: t.narrow(k, 0, 1) if t.dim() > k and t.shape[k] else t)
        yield whole(lambda t: torch.cat([t, t.narrow(k, 0, 1)], k) if t.dim() > k and t.shape[k] else t)
    yield whole(lambda t: t.unsqueeze(0))
    yield whole(lambda t: torch.stack([t, t]))
    yield whole(lambda t: t[0] if t.dim() and t.shape[0] else t)
    yield whole(lambda t: t.reshape(-1)[0] if t.numel() else t)
    yield whole(lambda t: t.transpose(0, -1) if t.dim() > 1 else t)
    # left out, given by name, given at last
    params = formals(case["op"])
    for k in range(len(args)):
        yield args[:k], kwargs
        if case["op"].startswith("torch") and k < len(params):
            names = {params[j][0]: args[j] for j in range(k, len(args)) if j < len(params)}
            yield args[:k], {**names, **kwargs}
            first = {params[j][0]: args[j] for j in range(len(args)) if j < len(params)}
            yield [], {**first, **kwargs}
    for k in kwargs:
        yield args, {j: v for j, v in kwargs.items() if j != k}
    for place, (name, ty, default) in enumerate(params):
        if place < len(args) or name in kwargs or name in ("out", "layout", "device", "pin_memory", "memory_format", "generator"):
            continue
        for v in other(ty, default, words):
            yield args, {**kwargs, name: v}
            if place == len(args):
                yield args + [v], kwargs
    for j in range(len(args) - 1):
        yield args[:j] + [args[j + 1], args[j]] + args[j + 2:], kwargs


def step(op, first, words, rng):
    """Some calls near a call that is near another."""
    try:
        again = list(near(json.loads(json.dumps(written(op, *first, ""))), words, rng))
    except Exception:
        return []
    return rng.sample(again, min(8, len(again)))


def written(op, args, kwargs, id):
    tensors = []
    def put_in(v):
        if isinstance(v, torch.Tensor):
            tensors.append(put(v))
            return {"t": len(tensors) - 1}
        return [put_in(x) for x in v] if isinstance(v, (list, tuple)) else put(v)
    a, b = [put_in(v) for v in args], {k: put_in(v) for k, v in kwargs.items()}
    return {"id": id, "op": op, "tensors": tensors, "args": a, "kwargs": b}


def ask(case, rng):
    """PyTorch's answer, with gradients where all floats are f64."""
    fn = resolve(case["op"])
    load = lambda: [tensor(o) for o in case["tensors"]]
    def call(ts):
        return flat(fn(*value(case["args"], ts), **{k: value(v, ts) for k, v in case["kwargs"].items()}))
    try:
        with torch.no_grad():
            ts = load()
            outs = call(ts)
    except Exception as e:
        return {"id": case["id"], "status": "error", "error": {"message": str(e).split("\n")[0][:120]}}
    if any(isinstance(o, torch.Tensor) and (o.numel() > 4 * SMALL or o.dtype not in NAME) for o in outs):
        return None
    if any(isinstance(o, (complex,)) for o in outs):
        return None
    if any(not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(ts, load())):
        return None  # a write
    r = {"id": case["id"], "status": "ok", "out": [put(o) for o in outs]}
    floats = [k for k, t in enumerate(ts) if t.is_floating_point()]
    if floats and all(ts[k].dtype == torch.float64 for k in floats):
        try:
            ts = [t.requires_grad_(k in floats) for k, t in enumerate(load())]
            outs = call(ts)
            cts = [torch.tensor([rng.choice([-2, -1, 1, 2, 3, 0.5]) for _ in range(o.numel())], dtype=o.dtype).reshape(o.shape)
                   if isinstance(o, torch.Tensor) and o.requires_grad else None for o in outs]
            flows = [(o, c) for o, c in zip(outs, cts) if c is not None]
            if flows:
                gs = torch.autograd.grad([o for o, _ in flows], [ts[k] for k in floats], [c for _, c in flows], allow_unused=True)
                r["grad"] = {str(k): None if g is None else put(g) for k, g in zip(floats, gs)}
                case["ct"] = [None if c is None else put(c) for c in cts]
                case["grad"] = floats
        except Exception:
            pass
    return r


def work(job):
    op, cases, words, out = job
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    rng = random.Random(op)
    seen, made = set(), 0
    with open(out, "w") as f:
        for case in cases:
            around = list(near(case, words, rng))
            # some that differ in two things
            twice = [second for first in rng.sample(around, min(12, len(around))) for second in step(op, first, words, rng)]
            for args, kwargs in around + twice:
                try:
                    c = written(op, args, kwargs, "")
                except Exception:
                    continue
                text = json.dumps(c, separators=(",", ":"))
                if text in seen or len(text) > 1800:
                    continue
                seen.add(text)
                c["id"] = f"{op}/near/{made}"
                made += 1
                torch.manual_seed(7)
                r = ask(c, rng)
                if r is not None:
                    f.write(json.dumps([c, r], separators=(",", ":"), allow_nan=False) + "\n")
                    f.flush()
    return op, made


def seeds():
    """The calls of seeds.py as cases, by operator."""
    import seeds
    by_op = {}
    for op, args, kwargs in seeds.CALLS:
        try:
            resolve(op)
        except AttributeError:
            continue
        by_op.setdefault(op, []).append({**written(op, args, kwargs, ""), "cat": "seed"})
    return by_op


def lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def main_ask(inputs, out):
    by_op = {}
    for path in inputs:
        for case in lines(path):
            plain = json.dumps(case)
            if case.get("cat") in ("inplace", "random") or '"c64"' in plain or '"ref"' in plain or '"complex"' in plain:
                continue
            by_op.setdefault(case["op"], []).append(case)
    folder = pathlib.Path(out) / "conformance"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    own = seeds()
    for op in own:
        by_op.setdefault(op, [])
    for op, cases in sorted(by_op.items()):
        cases = cases + own.get(op, [])
        words = sorted({w for c in cases for v in [*c["args"], *c["kwargs"].values()] if isinstance(v, str) for w in [v]})
        # calls that work, of different forms first
        ok = [c for c in cases if c.get("cat") not in ("error", "seed")]
        ok.sort(key=lambda c: len(json.dumps(c)))
        forms, first, rest = set(), [], []
        for c in ok:
            form = (len(c["args"]), tuple(sorted(c["kwargs"])), tuple(v if isinstance(v, (str, bool)) else 0 for v in c["args"]))
            (rest if form in forms else first).append(c)
            forms.add(form)
        jobs.append((op, (first + rest)[:MOST] + own.get(op, []), words, str(folder / f"part-{len(jobs)}.jsonl")))
    pool = multiprocessing.Pool(2, maxtasksperchild=1)
    results = [(job[0], pool.apply_async(work, (job,))) for job in jobs]
    for op, result in results:
        try:
            result.get(timeout=60)
        except Exception as e:
            print("stopped", op, type(e).__name__, e, flush=True)
    pool.terminate()
    join(folder)


def join(folder):
    count = 0
    with open(folder / "cases.jsonl", "w") as a, open(folder / "expect.jsonl", "w") as b:
        for part in sorted(folder.glob("part-*.jsonl")):
            for line in part.read_text().splitlines():
                try:
                    case, expect = json.loads(line)
                except ValueError:
                    continue  # the process ended in a call
                a.write(json.dumps(case, separators=(",", ":")) + "\n")
                b.write(json.dumps(expect, separators=(",", ":")) + "\n")
                count += 1
            part.unlink()
    print(count, "calls")


def main_keep(report, out):
    folder = pathlib.Path(out) / "conformance"
    named = {m["reason"] for m in json.loads(pathlib.Path(report).read_text())["mutants"] if m["verdict"] == "recorded"}
    pairs = [(a, b) for a, b in zip(lines(folder / "cases.jsonl"), lines(folder / "expect.jsonl")) if a["id"] in named]
    for name, at in (("cases.jsonl", 0), ("expect.jsonl", 1)):
        (HERE / name).write_text("".join(json.dumps(pair[at], separators=(",", ":")) + "\n" for pair in pairs))
    print(len(pairs), "kept")


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        main_ask(sys.argv[2:-1], sys.argv[-1])
    else:
        main_keep(*sys.argv[2:])
