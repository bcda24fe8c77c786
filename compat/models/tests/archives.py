"""Exports small models with the PyTorch that runs this, and compares every value of each in `fulgurite import`, and the
gradients by all parameters in `fulgurite run --grad`.

    python compat/models/tests/archives.py target/debug/fulgurite [NAME…]

Each model is exported as training IR and as core ATen. The last line says how many agree; the exit status is 1 if one
does not.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torch.export import Dim

warnings.filterwarnings("ignore")
torch.manual_seed(0)
torch.set_num_threads(1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8), nn.Hardswish())
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(x + self.body(x), 1).flatten(1)).log_softmax(-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(20, 16), nn.Parameter(torch.randn(12, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        n = tokens.shape[1]
        mask = torch.full((n, n), float("-inf"), device=tokens.device).triu(1)
        return self.head(self.norm(self.layer(self.embedding(tokens) + self.position[:n], src_mask=mask)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(5, 6, 2, bidirectional=True, batch_first=True), nn.GRU(12, 4)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h, c


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.norm = nn.Conv2d(2, 4, 3, 2, 1), nn.GroupNorm(2, 4)
        self.up, self.out = nn.ConvTranspose2d(4, 4, 2, 2), nn.Conv2d(6, 2, 1)

    def forward(self, x):
        y = F.silu(self.norm(self.down(x)))
        y = self.up(y) + F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.out(torch.cat([x, F.pad(y, (0, 0, 0, 0))], 1)).tanh()


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(1, 2, 6, 4))
        self.register_buffer("at", torch.tensor(0))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        places = self.at + torch.arange(t)
        self.k.index_copy_(2, places, k)
        self.v[:, :, places] = v
        self.at += t
        seen = torch.arange(6)[None] <= places[:, None]
        return F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=seen)


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x, edges):
        source, target = edges
        h = self.a(x)
        degree = torch.zeros(x.shape[0]).index_add_(0, target, torch.ones(edges.shape[1])).clamp(min=1)
        h = torch.zeros_like(h).index_add(0, target, h[source]) / degree[:, None]
        top = torch.full((x.shape[0], 6), -1e9).scatter_reduce(0, target[:, None].expand(-1, 6), h[source], "amax")
        return self.b(F.elu(h + torch.where(top > -1e8, top, 0.0)))


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 127, (6, 8), dtype=torch.int8))
        self.register_buffer("packed", torch.randint(0, 255, (6, 4), dtype=torch.uint8))

    def forward(self, x):
        low, high = (self.packed & 15).to(torch.int8) - 8, (self.packed >> 4).to(torch.int8) - 8
        nibbles = torch.stack([low, high], -1).flatten(1).to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype) * 0.01) + F.linear(x, nibbles)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layers(x)


class Losses(nn.Module):
    def forward(self, x, y, labels):
        return (F.cross_entropy(x, labels, label_smoothing=0.1), F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.l1_loss(x, y),
                F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"))


batch = Dim("batch", min=1, max=64)
MODELS = {
    "residual": (Residual().eval(), (torch.randn(2, 3, 16, 16),), ({0: batch},)),
    "residual_train": (Residual().train(), (torch.randn(8, 3, 16, 16),), None),
    "attention": (Attention().eval(), (torch.randint(0, 20, (2, 7)),), ({0: batch},)),
    "recurrent": (Recurrent().eval(), (torch.randn(2, 4, 5),), None),
    "unet": (Unet().eval(), (torch.randn(2, 2, 8, 8),), ({0: batch},)),
    "cache": (Cache().eval(), (torch.randn(1, 3, 8),), None),
    "graph": (Graph().eval(), (torch.randn(6, 4), torch.randint(0, 6, (2, 14))), ({0: Dim("nodes", min=3)}, {1: Dim("edges", min=3)})),
    "quantised": (Quantised().eval(), (torch.randn(3, 8),), None),
    "mixed": (Mixed().eval(), (torch.randn(2, 6),), None),
    "losses": (Losses(), (torch.randn(4, 5), torch.randn(4, 5), torch.randint(0, 5, (4,))), None),
}


class Record(torch.fx.Interpreter):
    """Keeps each tensor under the name of its node, as it is when the node has run."""

    def __init__(self, module):
        super().__init__(module)
        self.values = {}

    def run_node(self, node):
        out = super().run_node(node)
        if isinstance(out, torch.Tensor):
            self.values[node.name] = out.detach().clone().contiguous()
        return out


def compare(command, folder, name, program, tolerance):
    """The report of the command, and its exit status."""
    archive, values = folder / f"{name}.pt2", folder / f"{name}.safetensors"
    torch.export.save(program, archive)
    program = torch.export.load(archive)
    args, kwargs = program.example_inputs
    record = Record(program.graph_module)
    with torch.no_grad():
        record.run(*[x.clone() if isinstance(x, torch.Tensor) else x for x in program._graph_module_flat_inputs(args, kwargs)],
                   enable_io_processing=False)
    save_file(record.values, values)
    ran = subprocess.run([command, "import", archive, "--compare", values, "--tolerance", str(tolerance), "--json"],
                         capture_output=True, text=True, timeout=120)
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.returncode, ran.stderr


def gradients(model, args):
    """The gradient of the sum of all outputs of floats by each parameter that has one."""
    model = copy.deepcopy(model)
    parameters = dict(model.named_parameters())
    out = model(*[x.clone() for x in args])
    floats = [x.float().sum() for x in (out if isinstance(out, tuple) else (out,)) if x.requires_grad]
    if not floats:
        return {}
    grads = torch.autograd.grad(sum(floats), list(parameters.values()), allow_unused=True)
    return {name: x for name, x in zip(parameters, grads) if x is not None}


def differentiate(command, folder, name, inputs, expected):
    """The largest difference of a gradient as a share of its largest element, and the errors of the command. A gradient
    that is only rounding, such as that of a bias before a softmax, is held against the largest of all."""
    archive, out = folder / f"{name}.pt2", folder / f"{name}.gradients.safetensors"
    values = [part for n in inputs for part in ("--input", f"{n}={folder / name}.safetensors")]
    ran = subprocess.run([command, "run", archive, *values, "--grad", "--out", out, "--quiet"],
                         capture_output=True, text=True, timeout=120)
    if ran.returncode != 0:
        return float("inf"), ran.stderr
    found = load_file(out)
    least = 1e-3 * max(x.abs().max().item() for x in expected.values())
    return max(((found[f"gradient.{n}"].float() - x.float()).abs().max() / x.abs().max().clamp(min=least)).item()
               for n, x in expected.items()), ""


def main():
    command, only = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    right = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, args, sizes) in MODELS.items():
            if only and name not in only:
                continue
            with torch.no_grad():
                training = torch.export.export(model, args, dynamic_shapes=sizes)
                programs = {"training IR": training, "core ATen": training.run_decompositions()}
            for form, program in programs.items():
                tolerance = 2e-2 if name == "mixed" else 2e-5
                reports, status, error = compare(command, pathlib.Path(folder), f"{name}.{form.split()[0]}", program, tolerance)
                missing = {m["target"] for m in reports[0]["missing"]} if reports else set()
                expected, off = gradients(model, args), 0.0
                if status == 0 and expected:
                    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
                    off, error = differentiate(command, pathlib.Path(folder), f"{name}.{form.split()[0]}", inputs, expected)
                if status == 0 and off <= (2e-2 if name == "mixed" else 5e-5):
                    right += 1
                    print(f"{name}, {form}: {reports[1]['compared']} values, {reports[1]['worst']:.1e}; "
                          f"{len(expected)} gradients, {off:.1e}")
                else:
                    wrong += 1
                    print(f"{name}, {form}: WRONG {reports[1:] or sorted(missing)}, gradients {off:.1e} {error[:400]}")
    print(f"{right} programs agree with PyTorch {torch.__version__}, {wrong} do not")
    sys.exit(1 if wrong else 0)


main()
