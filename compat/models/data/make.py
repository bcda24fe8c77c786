"""Makes the small model of the tests and the README: a convolutional net that reads handwritten digits of 8 by 8 pixels.

    pip install torch==2.15.0 scikit-learn==1.7 safetensors
    python make.py

It trains on the digits that scikit-learn ships (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI
Machine Learning Repository, CC BY 4.0), and writes beside itself

- digits.pt2: the net in evaluation, core ATen, for batches of 1 to 512 images;
- digits.train.pt2: the net in training, as `torch.export.export` gives it: BatchNorm moves its running statistics;
- digits.values.safetensors: inputs, and what PyTorch makes of them: outputs, gradients, statistics after one call.
"""
import pathlib
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torch.export import Dim, export, save

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
    net.train()
    save(export(net, (sample,)), HERE / "digits.train.pt2")
    values["logits.train"] = net(sample).detach()
    values |= {f"after.{name}": b.clone() for name, b in net.named_buffers()}
    save_file({name: v.contiguous() for name, v in values.items()}, HERE / "digits.values.safetensors")


main()
