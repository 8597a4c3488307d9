"""The reference: one backward pass a sample; and networks, images, labels and weights to compare on."""

import torch
import torch.nn.functional as F
from torch import nn

from adascale.learning import clipped_sum
from adascale.learning.models import build


class Layers(nn.Module):
    """Layers by their names, and a function of them and the input."""

    def __init__(self, compute, **layers):
        super().__init__()
        self.compute = compute
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.compute(self, x)


def residual():
    """GroupNorm, a sum past a block, both poolings, no bias, and a kernel that is no square."""

    def compute(m, x):
        x = F.relu(m.norm(m.first(x)))
        x = F.max_pool2d(x + torch.tanh(m.second(x)), 2)
        return m.last(F.avg_pool2d(x, x.shape[2:]).flatten(1))

    first = nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), bias=False)
    layers = {"first": first, "norm": nn.GroupNorm(2, 4), "second": nn.Conv2d(4, 4, 3, padding=1)}
    return Layers(compute, **layers, last=nn.Linear(4, 3, bias=False))


def rows(model, images, labels):
    """Every sample's gradient, shape (B, d), of the parameters that are not frozen."""
    found = []
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for image, label in zip(images, labels, strict=True):
        loss = F.cross_entropy(model(image[None]), label[None])
        gradients = torch.autograd.grad(loss, trainable, allow_unused=True, materialize_grads=True)
        found.append(torch.cat([each.flatten() for each in gradients]))
    return torch.stack(found)


def loop(model, images, labels, clip_norm, weights):
    found = rows(model, images, labels)
    return (weights * (clip_norm / found.norm(dim=1)).clamp_max(1)) @ found


def filled(model, seed=0):
    """The model in double precision, its parameters standard normal."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double))
    return model


def batch(shape, classes, count, dtype=torch.double):
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(count, *shape, generator=generator, dtype=dtype)
    labels = torch.randint(classes, (count,), generator=generator)
    return images, labels, torch.rand(count, generator=generator, dtype=dtype)


def problem(name, dtype=torch.float32, count=7):
    """A network by its name, images, labels and weights."""
    known = {"mnist_cnn": ((1, 28, 28), 10), "digits_cnn": ((1, 8, 8), 10), "residual": ((2, 9, 8), 3)}
    shape, classes = known.get(name, ((3, 32, 32), 10))
    if name == "residual":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = residual()
    else:
        model = build(name, 0)
    return model.to(dtype), *batch(shape, classes, count, dtype)


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


VECTOR = (4,)


def mlp():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def two(compute):
    """Two linear layers, ``first`` and ``last``, and a function of them and the input."""
    return Layers(compute, first=nn.Linear(4, 4), last=nn.Linear(4, 3))


def centred(m, x):
    """Takes the mean over the batch off, so that no sample is by itself."""
    x = m.first(x)
    return m.last(x - x.mean(0))


def error(model, shape=VECTOR, dtype=torch.double):
    """Of a sum of which half the samples are clipped, against the plain loop."""
    images, labels, weights = batch(shape, 3, 6, dtype)
    clip_norm = float(rows(model, images, labels).norm(dim=1).median())
    found = clipped_sum(model, images, labels, clip_norm, weights).gradient
    return relative(found, loop(model, images, labels, clip_norm, weights))
