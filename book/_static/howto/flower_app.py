"""Flower with the air in between: clients send clipped gradients, and the strategy is the channel and the receiver."""

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from own_loop import DEVICES, OWN, gradient
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from adascale import accounting, channel, policies

client = ClientApp()
server = ServerApp()


@client.train()
def send(message, context):
    """Answer with the clipped gradients of a Poisson batch, and with nothing else."""
    model = torch.nn.Linear(64, 10)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    sent = gradient(
        model,
        *DEVICES[int(context.node_config["partition-id"])],
        np.random.default_rng(),
    )
    return Message(RecordDict({"arrays": ArrayRecord([sent])}), reply_to=message)


class OverTheAir(FedAvg):
    """Federated SGD in which all M clients send in every round, and a policy sets the receive scaling."""

    def __init__(self, scenario, policy, budget, gain, model, rate=1.0):
        super().__init__(
            fraction_evaluate=0.0,
            min_train_nodes=len(gain),
            min_available_nodes=len(gain),
        )
        self.scenario, self.policy, self.model, self.rate = (
            scenario,
            policy,
            model,
            rate,
        )
        self.state, self.min_gain, self.eta = (
            policy.start(scenario, budget),
            scenario.min_gain(gain),
            [],
        )

    def aggregate_train(self, server_round, replies):
        """Take a step along what the server receives."""
        sent = [
            each.content["arrays"].to_numpy_ndarrays()[0]
            for each in replies
            if each.has_content()
        ]
        if len(sent) != self.scenario.num_devices:
            raise RuntimeError(
                f"{len(sent)} clients answered: the round is lost, and nothing is released"
            )
        self.state, energy = self.policy.decide(
            self.state, self.scenario.floor(self.min_gain[server_round - 1])
        )
        eta = self.scenario.noise_scale / energy
        noise = np.random.default_rng().normal(
            0, np.sqrt(self.scenario.noise_power / (2 * eta)), sent[0].size
        )
        theta = parameters_to_vector(
            self.model.parameters()
        ) - self.rate * torch.tensor(np.mean(sent, 0) + noise)
        vector_to_parameters(theta.float(), self.model.parameters())
        self.eta.append(float(eta))
        return ArrayRecord(self.model.state_dict()), None


@server.main()
def main(grid, context):
    """Train, and print what the models reveal."""
    gain, model = (
        channel.draw(OWN.num_devices, OWN.num_rounds, seed=0).gain,
        torch.nn.Linear(64, 10),
    )
    air = OverTheAir(OWN, policies.Learn(budget_mode="hard"), 0.04, gain, model)
    air.start(grid, ArrayRecord(model.state_dict()), OWN.num_rounds)
    found = policies.Selection(OWN, np.array(air.eta), np.ones(gain.shape, dtype=bool))
    epsilon = np.ceil(1e4 * found.epsilon(accounting.ExactAccountant())) / 1e4
    print(f"epsilon {epsilon}, delta 1e-5, for one sample of one client")
    print(
        "It holds against those who see the models alone. This server gets every gradient without noise."
    )
