"""Train your own PyTorch model over the air: adascale decides, and this loop is the channel."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.func import functional_call, grad, vmap

from adascale import Scenario, accounting, channel, policies

OWN = Scenario(
    "own",
    10,
    100,
    650,
    batch_size=30,
    dataset_size=150,
    clip_norm=1,
    max_power=0.2,
    noise_power=1e-12,
)
x, y = map(torch.tensor, load_digits(return_X_y=True))
DEVICES = list(
    zip((x[:1500].float() / 16).split(150), y[:1500].split(150), strict=True)
)


def gradient(model, x, y, rng, rate, size, clip):
    """Sum the clipped gradients of a Poisson batch, and divide by its *expected* size."""
    drawn = torch.tensor(rng.random(len(y)) < rate)
    theta = dict(model.named_parameters())
    each = grad(
        lambda p, x, y: torch.nn.functional.cross_entropy(
            functional_call(model, p, (x[None],)), y[None]
        )
    )
    rows = torch.cat(
        [
            g.detach().flatten(1)
            for g in vmap(each, (None, 0, 0))(theta, x[drawn], y[drawn]).values()
        ],
        1,
    )
    return ((clip / rows.norm(dim=1)).clamp(max=1) @ rows / size).numpy()


def train(model, optimiser, devices, h, policy, *budget, s=OWN, seed=0):
    """Run all rounds on the data (x, y) of each device, and return who sent, and at which scaling."""
    gain, rng, state = (
        s.scaled_gain(np.abs(h) ** 2),
        np.random.default_rng(seed),
        policy.start(s, *budget),
    )
    eta, sends = np.zeros(s.num_rounds), np.ones(h.shape, dtype=bool)
    rate, size = (np.broadcast_to(v, len(h)) for v in (s.sampling_rate, s.batch_size))
    for t in range(s.num_rounds):
        if isinstance(policy, policies.Selecting):
            state, eta[t : t + 1], sends[:, t : t + 1] = policy.decide(
                state, gain[:, t : t + 1]
            )
        else:
            state, energy = policy.decide(state, s.floor(gain[:, t].min()))
            eta[t] = s.noise_scale / energy
        if eta[t] > 0:  # 0 means that nobody sends
            share, on = sends[:, t] * s.relative_weight, np.flatnonzero(sends[:, t])
            weight = np.sqrt(eta[t]) * share / share.sum() / h[:, t]
            sent = [
                weight[m]
                * gradient(model, *devices[m], rng, rate[m], size[m], s.clip_norm)
                for m in on
            ]
            received = (h[on, t] @ sent).real + np.sqrt(
                s.noise_power / 2
            ) * rng.standard_normal(s.num_parameters)
            parts = torch.tensor(received / np.sqrt(eta[t])).split(
                [p.numel() for p in model.parameters()]
            )
            for p, part in zip(model.parameters(), parts, strict=True):
                p.grad = part.view_as(p).to(p)
            optimiser.step()
    return policies.Selection(s, eta, sends)


if __name__ == "__main__":
    h = channel.draw(10, 100, seed=0).coefficient
    for policy, *budget in (
        (policies.Learn(budget_mode="hard"), 0.04),
        (policies.Truncated(epsilon=2.0),),
    ):
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 10)  # its 650 parameters are the scenario's
        found = train(
            model, torch.optim.SGD(model.parameters(), 1.0), DEVICES, h, policy, *budget
        )
        share, epsilon = (
            found.participation.mean(),
            found.epsilon(accounting.ExactAccountant()),
        )
        right = (model(x[1500:].float() / 16).argmax(1) == y[1500:]).float().mean()
        shown = f"{share:.1%} send, W {found.total:.2f}, {right:.1%} right, ε {np.ceil(1e4 * epsilon) / 1e4}"
        print(f"{type(policy).__name__}: {shown}")
    print(
        "delta 1e-5, for one sample of one device, against a server with one receive chain that cannot cancel noise"
    )
