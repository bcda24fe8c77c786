"""Trains models with the PyTorch that is installed and with `fulgurite train --model`, on the same samples in the same
order, and compares the losses of every step and the buffers and parameters behind the last one. Then it compares a cache
that is filled token by token with the prompt at once, and weights in integers with those of the file.

    python compat/models/tests/training.py target/debug/fulgurite [name …]

GPT-2 and Llama are made by the package `transformers`; without it they are left out.
"""
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

STEPS, RATE, DECAY = 20, 1e-3, 0.01
LOSS, BUFFER = 1e-4, 1e-4  # shares of the loss, and of the largest element of a buffer


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
    """He et al., 2015: the layers of torchvision's `resnet18`, and the loss."""

    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
                 (512, 512, 1)]
        self.layers = nn.Sequential(*(Block(*size) for size in sizes))
        self.fc = nn.Linear(512, classes)

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
    data = {"images": torch.randn(16, 3, 64, 64), "labels": torch.randint(0, 10, (16,))}
    return ResNet18().train(), data, 8


def digits():
    net = nn.Sequential(nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), nn.GELU(), nn.Flatten(), nn.Linear(216, 10))
    return net.train(), {"input": torch.randn(48, 1, 8, 8), "labels": torch.randint(0, 10, (48,))}, 16


TRAINED = {"digits": digits, "resnet18": resnet, "gpt2": gpt2, "llama": llama}


def call(command, *args):
    ran = subprocess.run([command, *map(str, args), "--json"], capture_output=True, text=True, timeout=1200)
    if ran.returncode:
        raise RuntimeError(ran.stderr[:800] or ran.stdout[-800:])
    return [json.loads(line) for line in ran.stdout.splitlines()]


def distance(found, expected):
    """The largest difference, as a share of the largest expected element."""
    found, expected = found.double(), expected.double()
    return ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()


def trained(command, folder, name):
    """Trains both ways; the largest differences of losses, buffers and parameters."""
    net, data, batch = TRAINED[name]()
    names = [key for key in data if key != "labels" or isinstance(net, ResNet18)]
    sample = tuple(data[key][:batch] for key in names)
    archive, samples = folder / f"{name}.pt2", folder / f"{name}.safetensors"
    torch.export.save(torch.export.export(net, sample), archive)
    save_file(data, samples)
    loss = [] if len(names) == len(data) else ["--loss", "cross_entropy", "--target", "labels"]
    steps = call(command, "train", "--model", archive, "--data", samples, *loss, "--batch", batch, "--steps", STEPS, "--lr",
                 RATE, "--decay", DECAY, "--in-order", "--log-every", 1, "--out", folder / name)
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    losses, count = [], len(data[names[0]])
    for step in range(STEPS):
        at = step * batch % count
        part = {key: values[at:at + batch] for key, values in data.items()}
        out = net(*(part[key] for key in names))
        value = F.cross_entropy(out, part["labels"]) if loss else out
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    found = [step["loss"] for step in steps]
    assert len(found) == STEPS, steps
    off = max(abs(a - b) / abs(b) for a, b in zip(found, losses))
    weights = load_file(folder / name / "weights.safetensors")
    buffers = {key: value for key, value in net.named_buffers() if key in weights}
    counters = [key for key, value in buffers.items() if not value.is_floating_point()]
    wrong = [key for key in counters if not torch.equal(weights[key], buffers[key])]
    moved = max((distance(weights[key], value) for key, value in buffers.items() if key not in counters), default=0.0)
    params = max(distance(weights[key], value) for key, value in net.named_parameters() if key in weights)
    print(f"{name}: {STEPS} losses from {losses[0]:.4f} to {losses[-1]:.4f} differ by {off:.1e}, {len(buffers)} buffers by "
          f"{moved:.1e}, parameters by {params:.1e}" + (f", WRONG {wrong}" if wrong else ""))
    return off <= LOSS and moved <= BUFFER and not wrong


def main():
    command, only = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in TRAINED:
            if only and name not in only:
                continue
            try:
                fine = trained(command, pathlib.Path(folder), name)
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
