"""Makes the small model of the tests and the README: a convolutional net that reads handwritten digits of 8 by 8 pixels.

    pip install torch==2.15.0 scikit-learn==1.7 safetensors
    python make.py

It trains on the digits that scikit-learn ships (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI
Machine Learning Repository, CC BY 4.0), and writes beside itself

- digits.pt2: the net in evaluation, core ATen, for batches of 1 to 512 images;
- digits.train.pt2: the net in training, as `torch.export.export` gives it: BatchNorm moves its running statistics;
- split.train.pt2: a write to a part of a tensor, which is refused;
- writes.train.pt2 and writes.values.safetensors: writes to results that share memory with other values, or don't;
- cache.pt2 and cache.values.safetensors: attention with a cache of keys and values, which a call of some tokens extends;
- control.pt2 and control.values.safetensors: a choice, a loop and a scan, on values of a fixed seed;
- digits.joint.pt2: the net with its loss and the gradients of its parameters, one program;
- digits.values.safetensors: inputs, and what PyTorch makes of them: outputs, gradients, statistics after one call.
"""
import pathlib
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch.export import Dim, export, save
from torch.export.experimental import _export_forward_backward

HERE = pathlib.Path(__file__).parent
torch.manual_seed(0)
torch.set_num_threads(1)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.block2 = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        return self.head(self.block2(self.block1(images)).flatten(1))


class Loss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, images, labels):
        return nn.functional.cross_entropy(self.net(images), labels)


class Control(nn.Module):
    """A choice by the sum of x, a loop until its sum is large, and a scan over the rows of xs."""

    def forward(self, x, xs):
        y = torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.sigmoid() * 2, (x,))
        count, z = while_loop(lambda n, z: z.sum() < 50, lambda n, z: (n + 1, z * 1.5 + 0.25), (torch.tensor(0), y))
        last, sines = scan(lambda c, u: (c * 0.5 + u, c.sin()), torch.zeros(4), xs, dim=0)
        return y, count, z, last, sines


class Cache(nn.Module):
    """Attention of new tokens to all tokens up to now, whose keys and values the buffers hold."""

    def __init__(self, length=16, width=16, heads=2):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(1, heads, length, width // heads))
        self.register_buffer("at", torch.tensor(0))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        places = self.at + torch.arange(x.shape[1])
        self.k.index_copy_(2, places, k)
        self.v.index_copy_(2, places, v)
        self.at += x.shape[1]
        seen = torch.arange(self.k.shape[2])[None] <= places[:, None]
        y = nn.functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=seen)
        return self.out(y.transpose(1, 2).flatten(2))


class Writes(nn.Module):
    """Writes to results of calls that may return their argument, or a view of it, or a copy."""

    def forward(self, x):
        a = x * 1
        a.contiguous().add_(1)  # is a
        b = x * 2
        b.t().contiguous().mul_(3)  # a copy
        c = x * 3
        c.t().reshape(-1).mul_(3)  # a copy
        d = x * 4
        d.reshape(-1)[2:5].zero_()  # a view of d
        e = x * 5
        nn.functional.dropout(e, 0.5, training=False).neg_()  # is e
        f = x * 6
        f.to(torch.float32).add_(2)  # is f
        g = x * 7
        g.to(torch.float64).add_(2)  # another dtype
        h = x * 8
        h.clone().add_(2)  # a copy
        i = x * 9
        i.t()[1].copy_(torch.ones(3))  # a view of i
        j = x[None].expand(2, 3, 4).reshape(6, 4).add_(1)  # a copy
        return a, b, c, d, e, f, g, h, i, j


class Split(nn.Module):
    """A write to a part of a tensor that was split."""

    def forward(self, x):
        a = x * 1
        first, second = a.chunk(2)
        first.add_(1)
        return a, second


def writes():
    save(export(Split().eval(), (torch.randn(4, 3),)), HERE / "split.train.pt2")
    net, x = Writes().eval(), torch.randn(3, 4)
    save(export(net, (x,)), HERE / "writes.train.pt2")
    save_file({"x": x, **{f"out{n}": v.contiguous() for n, v in enumerate(net(x))}}, HERE / "writes.values.safetensors")


def control():
    net, values = Control().eval(), {}
    x, xs = torch.randn(3, 4), torch.randn(5, 4)
    save(export(net, (x, xs)).run_decompositions(), HERE / "control.pt2")
    for name, x in (("negative", -x.abs()), ("positive", x.abs())):
        results = dict(zip(("y", "count", "z", "last", "sines"), net(x, xs)))
        values |= {f"{name}.{key}": value for key, value in ({"x": x, "xs": xs} | results).items()}
    save_file({name: v.contiguous().clone() for name, v in values.items()}, HERE / "control.values.safetensors")


def cache():
    net, x = Cache().eval(), torch.randn(1, 8, 16)
    program = export(net, (x,), dynamic_shapes=({1: Dim("tokens", min=1, max=16)},))
    save(program.run_decompositions(), HERE / "cache.pt2")
    save_file({"x": x, "y": net(x).detach().contiguous()}, HERE / "cache.values.safetensors")


def main():
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    net = Digits()
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for epoch in range(12):
        for batch in torch.randperm(1500).split(100):
            loss = nn.functional.cross_entropy(net(images[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    net.eval()
    with torch.no_grad():
        right = (net(images[1500:]).argmax(1) == labels[1500:]).float().mean()
    print(f"{right:.1%} of 297 unseen digits are read")

    # a clone, because an archive has the whole memory of its sample inputs
    sample, answer = images[1500:1516].clone(), labels[1500:1516].clone()
    batch = {0: Dim("batch", min=1, max=512)}
    save(export(net, (sample,), dynamic_shapes=(batch,)).run_decompositions(), HERE / "digits.pt2")
    net.zero_grad()
    values = {"images": sample, "labels": answer, "logits": net(sample).detach()}
    nn.functional.cross_entropy(net(sample), answer).backward()
    values |= {f"grad.{name}": p.grad.clone() for name, p in net.named_parameters()}
    save(_export_forward_backward(export(Loss(net), (sample, answer))), HERE / "digits.joint.pt2")
    net.train()
    save(export(net, (sample,)), HERE / "digits.train.pt2")
    values["logits.train"] = net(sample).detach()
    values |= {f"after.{name}": b.clone() for name, b in net.named_buffers()}
    save_file({name: v.contiguous() for name, v in values.items()}, HERE / "digits.values.safetensors")


main()
cache()
control()
writes()
