"""The programs of the how-to pages, as the pages show them, with the packages that they are about."""

import re
import runpy
import shlex
import shutil
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario, accounting, channel, policies

from ..command import run

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "book" / "_static" / "howto"


@pytest.fixture
def program(monkeypatch):
    """Import a program of a page."""
    monkeypatch.syspath_prepend(HOWTO)
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")

    def load(name):
        with warnings.catch_warnings(
            action="ignore"
        ):  # those of other packages, when they are imported
            return import_module(name)

    return load


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Run the commands of a page in a folder with the programs of the pages."""
    for each in HOWTO.glob("*.*"):
        shutil.copy(each, tmp_path)
    monkeypatch.chdir(tmp_path)

    def shell(commands):
        for line in commands.replace("\\\n", "").splitlines():
            name, *arguments = shlex.split(line)
            if name == "python":
                monkeypatch.setattr(sys, "argv", arguments)
                runpy.run_path(arguments[0], run_name="__main__")
            elif name == "echo":
                print(*arguments)
            else:
                assert run(*arguments) == 0

    return shell


def exact(scenario, eta):
    """The proven upper bound on epsilon of rounds in which all devices send."""
    sigma = (
        scenario.num_devices
        * scenario.batch_size
        * np.sqrt(scenario.noise_power / (2 * np.asarray(eta)))
    )
    return accounting.epsilon(
        [(scenario.sampling_rate, each, 1) for each in sigma], delta=1e-5
    ).upper


def exact_of_learn(scenario):
    """That of the policy and the channel of two pages."""
    policy, eta = policies.Learn(budget_mode="hard"), []
    state = policy.start(scenario, 0.04)
    for least in scenario.min_gain(channel.draw(10, scenario.num_rounds, seed=0).gain):
        state, energy = policy.decide(state, scenario.floor(least))
        eta.append(float(scenario.noise_scale / energy))
    return exact(scenario, eta)


def test_pages_show_only_the_programs_that_are_tested():
    pages = "".join(page.read_text() for page in ROOT.glob("book/howto-*.md"))
    shown = re.findall(r"^```\{literalinclude\} _static/howto/(\S+)$", pages, re.M)
    others = pages.count("```{table}")
    assert pages.count("```") == 2 * (len(shown) + others)  # no code of their own
    shown += re.findall(r"^:::\{figure\} _static/howto/(\S+)$", pages, re.M)
    assert sorted(shown) == sorted(each.name for each in HOWTO.glob("*.*"))


NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b")
CLIP = re.compile(r"\bp[0-9a-f]{10}\b")  # in SVG: a digest of the numbers of a frame


def assert_shown(name, text):
    """A text is what a page shows, but for the last digits of numbers, which machines round differently."""
    text, shown = (CLIP.sub("p", t) for t in (text, (HOWTO / name).read_text()))
    assert NUMBER.sub("#", text) == NUMBER.sub("#", shown)
    numbers = [[float(each) for each in NUMBER.findall(t)] for t in (text, shown)]
    np.testing.assert_allclose(*numbers, rtol=2e-3, atol=2e-3)


def test_page_shows_what_its_program_prints(capsys):
    runpy.run_path(str(HOWTO / "unequal.py"), run_name="__main__")
    assert_shown("unequal.out", capsys.readouterr().out)


def test_drops_of_nyusim_are_dealt_to_devices_in_turn(shell, tmp_path):
    """The file is as NYUSIM writes it: blanks around tabs, and a tab after the names."""
    loss = np.random.default_rng(0).uniform(70, 120, 40).round(1)
    names = (
        "T-R Separation Distance (m)\tReceived Power (dBm)\tPath Loss (dB)\tK (dB)\t"
    )
    drops = [f"\n{50:15.1f}\t{20 - x:25.1f}\t{x:15.1f}\t{3:20.1f}" for x in loss]
    (tmp_path / "OmniPDPInfo.txt").write_text("".join([names, *drops]))
    shell("python nyusim.py")
    gain = channel.read_gains("drops.npy", Scenario.mnist(), "loss").gain
    for i, x in enumerate(loss):
        assert gain[i % 10, i // 10] == pytest.approx(10 ** (-x / 10), rel=1e-12)


def test_schedule_disturbs_gradients_in_numpy_and_torch(shell, program, tmp_path):
    torch = pytest.importorskip("torch")
    eta = np.array([1e-7, 4e-9])
    table = "".join(f"{t},{value},mnist\n" for t, value in enumerate(eta))
    (tmp_path / "eta.csv").write_text(f"round,eta,made_with\n{table}")
    received = program("use_eta").received
    torch.manual_seed(0)
    for zeros in np.zeros(100_000), torch.zeros(100_000):
        for t in range(2):
            found = float(received(zeros, t).std())
            # six standard errors
            assert found == pytest.approx(np.sqrt(1e-12 / 2 / eta[t]), rel=0.014)


def test_own_loop_steps_along_the_mean_of_clipped_gradients_of_senders(program):
    torch, loop = pytest.importorskip("torch"), program("own_loop")
    clipped_sum = import_module("adascale.learning").clipped_sum
    # all samples, and next to no noise
    s = replace(loop.OWN, num_rounds=1, batch_size=150, noise_power=1e-26)
    h = channel.draw(10, 1, seed=3).coefficient
    scaled = s.scaled_gain(np.abs(h) ** 2)[:, 0]
    policy = policies.Truncated(threshold=np.sort(scaled)[4])
    senders = scaled >= policy.threshold
    model = torch.nn.Linear(64, 10)
    sums = [clipped_sum(model, x, y, 1.0).gradient for x, y in loop.DEVICES]
    vector = torch.nn.utils.parameters_to_vector
    with torch.no_grad():
        step = 0.7 * torch.stack(sums)[senders].mean(dim=0) / 150
        expected = vector(model.parameters()) - step
    optimizer = torch.optim.SGD(model.parameters(), 0.7)
    found = loop.train(model, optimizer, loop.DEVICES, h, policy, s=s)
    assert found.senders[:, 0].tolist() == senders.tolist()
    # float32 sums in another order
    after = vector(model.parameters()).detach()
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_own_loop_prints_the_epsilon_of_its_policies(program, capsys):
    pytest.importorskip("torch")
    runpy.run_path(str(HOWTO / "own_loop.py"), run_name="__main__")
    printed = capsys.readouterr().out
    # the accuracy of a training in single precision differs between machines
    accuracy = r"[\d.]+% right"
    shown = re.sub(accuracy, "", (HOWTO / "own_loop.out").read_text())
    assert re.sub(accuracy, "", printed) == shown
    learn, truncated = (float(each) for each in re.findall("ε ([0-9.]+)", printed))
    assert learn == pytest.approx(exact_of_learn(program("own_loop").OWN), abs=6e-4)
    assert 1.9 < truncated <= 2


@pytest.fixture
def flower(program, monkeypatch):
    """Flower's app, with an identity as Flower gives one to the process that runs it."""
    pytest.importorskip("flwr")
    app = program("flower_app")
    identity = import_module("flwr.supercore.task_identity").TaskIdentity
    for each in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(identity, each, 1)
    return app


class Nodes:
    """Flower's nodes, in this process: a grid that runs a client app."""

    def __init__(self, app, count):
        self.app, self.count = app, count

    def get_node_ids(self):
        return range(1, self.count + 1)

    def send_and_receive(self, messages, timeout):
        from flwr.app import Context, RecordDict

        each = lambda m: {"partition-id": m.metadata.dst_node_id - 1}  # noqa: E731
        return [
            self.app(m, Context(1, m.metadata.dst_node_id, each(m), RecordDict(), {}))
            for m in messages
        ]


def test_flower_app_trains_and_prints_the_epsilon_of_its_schedule(
    flower, monkeypatch, capsys
):
    scenario = replace(flower.OWN, num_rounds=5)
    monkeypatch.setattr(flower, "OWN", scenario)
    flower.main(Nodes(flower.client, 10), None)
    found = float(re.search("epsilon ([0-9.]+)", capsys.readouterr().out)[1])
    assert found == pytest.approx(exact_of_learn(scenario), abs=6e-4)


def test_sionna_trace_reaches_the_schedule(program, shell, tmp_path, capsys):
    pytest.importorskip("sionna")
    shell((HOWTO / "sionna.sh").read_text())
    assert_shown("sionna.out", capsys.readouterr().out)
    h = program("sionna_trace").trace()
    assert h.shape == (500, 10)
    gain = Scenario.mnist().min_gain(np.abs(h.T.astype(complex)) ** 2)
    found = pd.read_csv(tmp_path / "eta.csv").min_gain
    np.testing.assert_allclose(found, gain, rtol=1e-6)  # single precision
    # far from one gain for all: the devices move
    assert gain.max() > 10 * gain.min()


def test_measured_trace_reaches_the_schedule_and_a_figure(shell, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    shell("python example_site.py\n" + (HOWTO / "measured.sh").read_text())
    assert (tmp_path / "eta.pdf").read_bytes().startswith(b"%PDF")
    printed = capsys.readouterr().out
    assert_shown("measured.out", printed)
    upper = float(re.search(r"^upper +([0-9.]+)", printed, re.M)[1])
    eta = pd.read_csv(tmp_path / "eta.csv").eta
    assert upper == pytest.approx(exact(Scenario.mnist(), eta), rel=1e-5)


def test_policies_are_compared_on_the_trace_as_the_page_shows(shell, tmp_path, capsys):
    pytest.importorskip("matplotlib", "3.11")  # which names glyphs otherwise
    shell("python example_site.py\n" + (HOWTO / "compare.sh").read_text())
    out, err = capsys.readouterr()
    said = [line for line in err.splitlines(True) if "compiling" not in line]
    assert_shown("compare.out", out + "".join(said))
    assert_shown("compare.svg", (tmp_path / "compare.svg").read_text())
