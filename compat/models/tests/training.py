"""Trains models with the PyTorch that is installed and with `fulgurite train --model`, on the same samples in the same
order, and compares the losses of every step and the buffers and parameters behind the last one. Then it compares a cache
that is filled token by token with the prompt at once, and weights in integers with those of the file.

    python compat/models/tests/training.py target/debug/fulgurite [name …]

GPT-2 and Llama are made by the package `transformers`; without it they are left out.
"""
import copy
import functools
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

warnings.filterwarnings("ignore")
torch.manual_seed(0)
torch.set_num_threads(1)

# the rate has few bits, because a rounded one would train another model
STEPS, RATE, DECAY = 20, 2.0**-10, 0.01
# The largest difference, as a share of the loss or of the largest element. A step of AdamW divides each gradient by its
# own size, so that rounding grows from step to step: in f32, PyTorch's losses of the ResNet differ from those in f64 by
# 1e-2. So the limit is that of f64, and in f32 at least this or a multiple of what rounding does to PyTorch.
LIMIT, IN_F32 = 1e-6, 1e-4


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """The layers of torchvision's `resnet18` (He et al., 2015) with fewer channels, and the loss."""

    def __init__(self, width=16, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))
        sizes = [(1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1), (4, 8, 2), (8, 8, 1)]
        self.layers = nn.Sequential(*(Block(a * width, b * width, stride) for a, b, stride in sizes))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, images, labels):
        x = F.adaptive_avg_pool2d(self.layers(self.stem(images)), 1).flatten(1)
        return F.cross_entropy(self.fc(x), labels)


class Language(nn.Module):
    """The loss of a language model: each token is predicted from those before it."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, tokens):
        logits = self.net(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=96, n_positions=32, n_embd=48, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, attn_implementation="sdpa")
    return Language(GPT2LMHeadModel(config)).train(), {"tokens": torch.randint(0, 96, (8, 24))}, 4


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=64, attn_implementation="sdpa")
    return Language(LlamaForCausalLM(config)).train(), {"tokens": torch.randint(0, 96, (8, 24))}, 4


def resnet():
    data = {"images": torch.randn(16, 3, 48, 48), "labels": torch.randint(0, 10, (16,))}
    return ResNet18().train(), data, 8


def digits():
    net = nn.Sequential(nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), nn.GELU(), nn.Flatten(), nn.Linear(216, 10))
    return net.train(), {"input": torch.randn(48, 1, 8, 8), "labels": torch.randint(0, 10, (48,))}, 16


TRAINED = {"digits": digits, "resnet18": resnet, "gpt2": gpt2, "llama": llama}


class Cached(nn.Module):
    """A language model that writes the keys and values of its tokens to a cache of fixed size."""

    def __init__(self):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM
        from transformers.integrations.executorch import TorchExportableModuleWithStaticCache
        config = LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                             num_attention_heads=4, num_key_value_heads=2, attn_implementation="sdpa")
        config.use_cache = True
        net = LlamaForCausalLM(config).eval()
        net.generation_config.cache_implementation = "static"
        net.generation_config.cache_config = {"batch_size": 1, "max_cache_len": 16}
        self.net = TorchExportableModuleWithStaticCache(net, batch_size=1, max_cache_len=16, device=torch.device("cpu"))

    def forward(self, tokens, places):
        return self.net(input_ids=tokens, cache_position=places)


def call(command, *args):
    ran = subprocess.run([command, *map(str, args), "--json"], capture_output=True, text=True, timeout=1200)
    if ran.returncode:
        raise RuntimeError(ran.stderr[:800] or ran.stdout[-800:])
    return [json.loads(line) for line in ran.stdout.splitlines()]


def distance(found, expected):
    """The largest difference, as a share of the largest expected element."""
    found, expected = found.double(), expected.double()
    return ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()


def in_pytorch(net, data, names, batch):
    """The loss of every step; the net is trained."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    losses, count = [], len(data[names[0]])
    for step in range(STEPS):
        at = step * batch % count
        part = {key: values[at:at + batch] for key, values in data.items()}
        out = net(*(part[key] for key in names))
        loss = out if out.ndim == 0 else F.cross_entropy(out, part["labels"])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def apart(found, expected):
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected, strict=True))


def trained(command, folder, name):
    """Trains both ways, in f64 and in f32."""
    made, data, batch = TRAINED[name]()
    names = [key for key in data if key != "labels" or isinstance(made, ResNet18)]
    loss = [] if len(names) == len(data) else ["--loss", "cross_entropy", "--target", "labels"]
    fine, precise = True, None
    for dtype in (torch.float64, torch.float32):
        net = copy.deepcopy(made).to(dtype)
        given = {key: values.to(dtype) if values.is_floating_point() else values for key, values in data.items()}
        archive, samples = folder / f"{name}.pt2", folder / f"{name}.safetensors"
        torch.export.save(torch.export.export(net, tuple(given[key][:batch] for key in names)), archive)
        save_file(given, samples)
        steps = call(command, "train", "--model", archive, "--data", samples, *loss, "--batch", batch, "--steps", STEPS,
                     "--lr", RATE, "--decay", DECAY, "--in-order", "--log-every", 1, "--out", folder / name)
        losses = in_pytorch(net, given, names, batch)
        found = [step["loss"] for step in steps]
        weights = load_file(folder / name / "weights.safetensors")
        buffers = {key: value for key, value in net.named_buffers() if key in weights}
        counters = [key for key, value in buffers.items() if not value.is_floating_point()]
        wrong = [key for key in counters if not torch.equal(weights[key], buffers[key])]
        moved = max((distance(weights[key], value) for key, value in buffers.items() if key not in counters), default=0.0)
        params = max(distance(weights[key], value) for key, value in net.named_parameters() if key in weights)
        off, own, limit = apart(found, losses), "", LIMIT
        if precise is None:
            precise = losses
        else:
            # what rounding alone does to the losses of PyTorch
            rounding = apart(losses, precise)
            own, limit = f"; PyTorch's own losses differ from those in f64 by {rounding:.1e}", max(IN_F32, 20 * rounding)
        print(f"{name}, {str(dtype)[6:]}: {STEPS} losses from {losses[0]:.4f} to {losses[-1]:.4f} differ by {off:.1e}, "
              f"{len(buffers)} buffers by {moved:.1e}, parameters by {params:.1e}{own}" + (f", WRONG {wrong}" if wrong else ""))
        fine &= off <= limit and not wrong and (dtype == torch.float32 or moved <= LIMIT)
    return fine


def cached(command, folder):
    """Eight tokens at once, and one by one: each call reads the buffers that the one before has written."""
    tokens, places = torch.randint(0, 96, (1, 8)), torch.arange(8)
    net = Cached()
    results = {}
    for count in (8, 1):
        given = tokens[:, :count], places[:count]
        with torch.no_grad():
            torch.export.save(torch.export.export(net, given), folder / f"cache{count}.pt2")
    state = folder / "state.safetensors"
    for count in (8, 1):
        rows, weights = [], []
        for at in range(0, 8, count):
            save_file({"tokens": tokens[:, at:at + count].contiguous(), "places": places[at:at + count].clone()},
                      folder / "token.safetensors")
            given = folder / "token.safetensors"
            rows.append(call(command, "run", folder / f"cache{count}.pt2", *weights, "--save", state, "--input",
                             f"tokens={given}", "--input", f"places={given}")[0]["outputs"][0]["data"])
            weights = ["--weights", state]
        results[count] = torch.cat([torch.tensor(row).reshape(1, count, -1) for row in rows], 1)
    with torch.no_grad():
        expected = net(tokens, places)
    one, all_at_once = distance(results[1], results[8]), distance(results[8], expected)
    print(f"cache: 8 tokens one by one differ from the prompt at once by {one:.1e}, and it from PyTorch by {all_at_once:.1e}")
    return one <= 1e-5 and all_at_once <= 1e-5


def quantised(command, folder):
    """Logits with weights in integers, as a share of the largest logit of the weights of the file."""
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=96, n_positions=32, n_embd=64, n_layer=2, n_head=4, attn_implementation="eager")
    net, tokens = GPT2LMHeadModel(config).eval(), torch.randint(0, 96, (2, 24))

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, tokens):
            return self.net(input_ids=tokens, use_cache=False).logits

    save_file({"tokens": tokens}, folder / "tokens.safetensors")
    worst = {}
    with torch.no_grad():
        expected, program = Logits()(tokens), torch.export.export(Logits(), (tokens,))
        for form, program in {"training IR": program, "core ATen": program.run_decompositions()}.items():
            torch.export.save(program, folder / "quantised.pt2")
            for bits, limit in (("int8", 0.02), ("int4", 0.3)):
                out = call(command, "run", folder / "quantised.pt2", "--input", f"tokens={folder / 'tokens.safetensors'}",
                           "--quantise", bits)[0]["outputs"][0]["data"]
                off = distance(torch.tensor(out).reshape(expected.shape), expected)
                worst[form, bits] = (off, limit)
    print("quantised: " + ", ".join(f"{form} in {bits} by {off:.1e}" for (form, bits), (off, _) in worst.items()))
    return all(1e-6 < off <= limit for off, limit in worst.values())


CHECKS = {name: functools.partial(trained, name=name) for name in TRAINED} | {"cache": cached, "quantised": quantised}


def main():
    command, only = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, check in CHECKS.items():
            if only and name not in only:
                continue
            try:
                fine = check(command, pathlib.Path(folder))
            except ImportError as reason:
                print(f"{name}: left out, {reason}")
                continue
            except RuntimeError as reason:
                print(f"{name}: WRONG {reason}")
                fine = False
            if not fine:
                failed.append(name)
    print(f"PyTorch {torch.__version__}: " + (f"{', '.join(failed)} differ" if failed else "all agree"))
    sys.exit(1 if failed else 0)


main()
