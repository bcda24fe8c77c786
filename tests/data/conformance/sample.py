"""Chooses the sample in this folder from a set of conformance cases and the results of `fulgurite conformance`.

    python sample.py CASES RESULTS REPORT      (REPORT: what compare.py printed, whose failures are left out)

Small cases first, a few of each operator and category; tensors that stand in a file beside the cases are written inline.
"""
import collections, json, pathlib, re, struct, sys

HERE = pathlib.Path(__file__).parent
BUDGET = 170_000  # bytes of cases.jsonl: with the further cases and signatures at most 1 MB
cases, results, report = map(pathlib.Path, sys.argv[1:4])


def tensors(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: {"dtype": v["dtype"].lower(), "shape": v["shape"], "hex": raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]].hex()} for k, v in head.items()}


def inline(o, store):
    if isinstance(o, dict):
        if "ref" in o:
            return {**store[o["ref"]], **{k: inline(v, store) for k, v in o.items() if k != "ref"}}
        return {k: inline(v, store) for k, v in o.items()}
    return [inline(x, store) for x in o] if isinstance(o, list) else o


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


failed = set(re.findall(r"(?m)^FAIL (\S+)", report.read_text()))
good = {r["id"] for r in lines(results / "results.jsonl") if r["status"] != "unsupported" and not r.get("unsupported")} - failed
given, wanted = tensors(cases / "cases.safetensors"), tensors(cases / "expect/expect.safetensors")
expect = {e["id"]: e for e in lines(cases / "expect/expect.jsonl")}
plain = lambda e: all(c in ("close", "exact") for c in e.get("cmp", [])) and all(isinstance(o, (bool, int)) or isinstance(o, dict) and "float" not in o for o in e.get("out", [])) and "after" not in e
pool = collections.defaultdict(list)
for case in lines(cases / "cases.jsonl"):
    e = expect[case["id"]]
    # its gradient has a tolerance of its own, for a constant that PyTorch has in single precision
    if case["id"] in good and plain(e) and not case["op"].endswith("hardsigmoid"):
        a, b = json.dumps(inline(case, given), separators=(",", ":")), json.dumps(inline(e, wanted), separators=(",", ":"))
        if '"c64"' not in a + b:
            pool[case["op"], case["cat"]].append((len(a) + len(b), a, b))
chosen, size = [], 0
order = ["forward", "ties", "error", "promotion", "edge"]
for rank in range(3):
    for key in sorted((k for k in pool if k[1] in order), key=lambda k: (order.index(k[1]), k[0])):
        some = sorted(pool[key])
        # not the very smallest, which are often empty
        at = (len(some) // 4 + rank) if len(some) > 3 else rank
        if at < len(some) and size + len(some[at][1]) <= BUDGET and some[at][0] < 6000:
            chosen.append(some[at][1:])
            size += len(some[at][1])
chosen.sort()
for n, name in enumerate(("cases.jsonl", "expect.jsonl")):
    (HERE / name).write_text("".join(c[n] + "\n" for c in chosen))
print(len(chosen), "cases of", len({json.loads(c[0])["op"] for c in chosen}), "operators", size)
