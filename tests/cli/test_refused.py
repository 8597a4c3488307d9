"""What a command refuses: one line that names what is wrong, exit code 2, and no file is changed.

One case for each check that a command makes; what any arguments, TOML files or tables lead to: ``test_hostile.py``.
"""

import io
import re
import shlex
import sys
from dataclasses import replace

import pytest

from ..command import overridden, refused
from .streams import HEADER, SMALL, WHOLE

OWN = """
from dataclasses import dataclass
from adascale.channel import ChannelModel
@dataclass(frozen=True)
class Own(ChannelModel):
    def fading(self, rng, num_rounds):
        return rng.standard_normal(num_rounds - 1) + 0j
class Counts:
    def __init__(self): 1 / 0
    def epsilon(self, rate, sigma, delta): return 1
"""
ROUND = "0,1,1,1,1,1,a"
BLOCK = '[[runs]]\nreading = "a"\ndataset = "digits"\npolicy = "EqualAlloc"\nnu = [0.5, 2]\nseed = 0\nrounds = 2\n'
PLOTTED = "".join(
    f"{p},{nu},{s},{1 / nu + s}\n" for p in "AB" for nu in (0.01, 0.1) for s in (0, 1)
)
PLOTTED = f"policy,nu,seed,epsilon\n{PLOTTED}"
MARK = "scenario=x|nu={}|digest=1"
MARKED = (
    f"policy,nu,epsilon,made_with\nA,1,1,{MARK.format(1)}\nA,2,1,{MARK.format(2)}\n"
)
FILES = {
    "mine_too.py": OWN,
    "base.toml": 'base = "digits"\n',
    "part.toml": replace(SMALL, privacy_noise_power=1e-13).to_toml(),
    "least.csv": "min_gain\n" + "1e-12\n" * 12,
    "digits.toml": 'base = "base.toml"\n[scenario]\nname = "mine"\n',
    "sweep.toml": BLOCK.replace('"digits"', '"digits.toml"'),
    "t.csv": PLOTTED,
    "t.svg": PLOTTED,
    "log.json": "[[1.0, 0.01]]",
}

# for each command with what is always given: what is added, what is said, and the file "given" where it matters
REFUSED = {
    "advantage": [
        ("", "give the mechanisms by FILE or --event"),
        ("--event 0.1", "expected Q,SIGMA or Q,SIGMA,COUNT, got '0.1'"),
        ("--event 0.1,1 --columns rate=q", "--columns needs a FILE"),
        ("log.json --columns rate", "expected NAME=COLUMN,..., got 'rate'"),
        ("log.json --columns noise=q", "must name rate, sigma or count, got 'noise'"),
        ("log.json", "log.json: history must be"),
    ],
    "delta": [("--event 0.1,1", "arguments are required: --epsilon")],
    "steps --epsilon 1": [
        (
            "--event .1,1 --fixed .1,1,9999",
            "epsilon of --fixed must be below the target",
        )
    ],
    "audit --rounds 10 --nu 2.56": [
        ("--policy adascale.policies:Truncated", "chooses who sends")
    ],
    "benchmark --version 1 --out new": [("--policy OPTIMAL", "duplicate")],
    "epsilon": [
        (
            "given",
            "line 3: expected a number that is within 1e-6 ... 1e150, as .*, got -1",
            "sigma,rate\n1,0.1\n-1,0.1\n",
        ),
        ("given", "got the columns 'sigma', expected one for each", "sigma\n1\n"),
        (
            "given --columns rate=2",
            r"sampling rate of events\[0\] must be in \[0, 1\], got 2.0",
            "sigma\n1\n",
        ),
        (
            "given --columns rate=0.1",
            "got the columns 'sigma,rate'",
            "sigma,rate\n1,0.1\n",
        ),
        (
            "given",
            r"line 3: expected a number that is whole, from 0 to 2\^53, got -1",
            "# x\nsigma,rate,steps\n1,0.1,-1\n",
        ),
        (
            "given",
            "got the columns 'sigma,rate,steps,count'",
            "sigma,rate,steps,count\n1,0.1,1,1\n",
        ),
        ("given --eta eta.csv", "give either FILE and --event, or"),
        ("given --interference -6", "--scenario and --interference need --eta"),
        ("--eta eta.csv", "--eta needs --scenario"),
    ],
    "epsilon --scenario my.toml --eta": [
        ("given", "got the columns 'sigma', expected", "sigma\n1\n"),
        (
            "given",
            "line 2: expected a number that is finite and >= 0, got -1 in eta",
            "eta\n-1\n",
        ),
        (
            "given",
            "line 3: rounds must be in order: expected the round after 0, got 2",
            "round,eta\n0,1\n2,1\n",
        ),
        (
            "given",
            "line 3: rounds must be in order: expected the round after 0, got 2",
            ",eta\n0,1\n2,1\n",
        ),
        (
            "given",
            "line 4: rounds must be in order: expected the round",
            f"{HEADER}\n{ROUND}\n{HEADER}\n{ROUND}2\n",
        ),
        (
            "given",
            "line 2: expected a number that is at most",
            "min_gain,eta\n1e-12,1e-3\n",
        ),
        ("given", "not every device sends", "round,eta,number,senders\n0,1e-3,9,1 2\n"),
    ],
    "leakage --scenario my.toml --policy optimal --out new.csv": [
        ("", "exactly one of --nu, --total and --epsilon is required, got none"),
        ("--nu 1 --total 1", "is required, got nu and total"),
        ("--nu 1 --realisations 0", "--realisations must be 1 ... 1000000, got 0"),
        (
            "--nu 1 --interference=3",
            "--interference must be a finite number of dB, at most 0",
        ),
        (
            "--nu 1 --interference=0 --scenario part.toml",
            "interference",
        ),  # neither wins in silence
        (
            "--nu 1 --out base.toml --scenario digits.toml",
            "--out 'base.toml' is the file of",
        ),
        ("--nu 1 --orders 1024,3", "--orders 1024,3: largest must be above smallest"),
        (
            "--nu 1 --orders 64 --accountant renyi:orders=(2,3)",
            "--orders applies only to the accountant renyi",
        ),
        ("--nu 1 --accountant renyi:order=3", "--accountant renyi:order=3: "),
        (
            "--nu 1 --channel mine_too:Own",
            r"Own.fading must return 12 finite coefficients, got shape \(11,\)",
        ),
        (
            "--nu 1 --accountant mine_too:Counts",
            "--accountant mine_too:Counts: ZeroDivisionError: division by zero",
        ),
        (
            "--nu 1 --realisations 1000000 --format csv --json",
            "--json cannot be combined with --format csv",
        ),
        ("--nu 1 --gains least.csv", "gains of every device"),
        ("--nu 1 --jobs 2 --scheduler x", "--jobs cannot be combined with --scheduler"),
        ("--nu 1 --policy learn:budget_mod=1", "Learn has no parameter 'budget_mod'"),
        ("--nu 1 --policy best", "Best needs number, as in Best:number=VALUE"),
        ("--nu 1 --variable H", "--variable applies only to --gains"),
    ],
    "plot": [
        ("t.csv f.gif", "FILE must end in .pdf, .png, .svg, got 'f.gif'"),
        ("t.svg t.svg", "FILE 't.svg' is the file of TABLE.csv"),
        ("t.csv f.pdf --y eps", "unknown column 'eps'; the table has policy, nu, seed"),
        ("t.csv f.pdf --x policy", "column 'policy' must be numeric, got 'A'"),
        ("t.csv f.pdf --by seed", "several rows have seed = 0.0, nu = 0.01"),
        ("t.csv f.pdf --x epsilon", "--x epsilon differs in all seeds"),
        ("given f.pdf", "a line has rows made with 'nu=1' and 'nu=2'", MARKED),
        ("given f.pdf", "no row has a place on the axes", "nu,epsilon,policy\n1,,a\n"),
        ("given f.pdf", "given has no rows", "nu,epsilon\n"),
        ("given f.pdf", "given: duplicate column 'nu'", "nu,nu\n1,2\n"),
        (
            "given f.pdf",
            "given, row 1: expected 2 fields, got 3",
            "nu,epsilon\n1,2,3\n",
        ),
        ("given f.pdf", "given is not a CSV table", ""),
    ],
    "schedule --scenario my.toml --gains gains.csv --out new.csv": [
        ("", "exactly one of --nu and --epsilon must be given"),
        ("--epsilon 2 --policy learn", "--policy must be privacybudget or truncated"),
        (
            "--epsilon 2 --policy truncated:threshold=1e-12",
            "truncated .without threshold.",
        ),
        ("--epsilon 2 --policy truncated --gains least.csv", "min_gain|h2_1 to h2_2"),
        ("--nu 1 --policy privacybudget", "needs --epsilon in place of --nu"),
        (
            "--nu 1 --policy truncated",
            "as --past, or --split, or give --epsilon in place of --nu",
        ),
        (
            "--nu 1 --policy constantlevel",
            "needs the distribution of the channel: .* as --past, or --split$",
        ),
        (
            "--nu 1 --policy adascale",
            "as --past, or --split, or V by --policy adascale:penalty=V$",
        ),
        (
            "--nu 1 --policy estimfuture --past least.csv",
            "EstimFuture needs the gains of every device",
        ),
        ("--nu 1 --policy learn:hold=.1,hold=.1", "twice|duplicate"),
        (
            "--nu 1 --policy powercontrol --past gains.csv --gains past.csv",
            "at least, on which PowerControl is tuned, got 12$",
        ),
        (
            "--nu 1 --hindsight --past past.csv",
            "--past cannot be combined with --hindsight",
        ),
        (
            "--nu 1 --split 0.5 --past past.csv",
            "--past cannot be combined with --split",
        ),
        (
            "--nu 1 --split 0.5 --hindsight",
            "--split cannot be combined with --hindsight",
        ),
        ("--nu 1 --out past.csv --past past.csv", "is the file of --past"),
        ("--nu=-1", "error: --nu must be in"),
        ("--nu 1 --delta 2", "error: --delta must be one number strictly"),
        ("--nu 1 --unit dbm", "error: --transmit-power .* if --unit is dbm"),
        ("--nu 1 --gaps floor", "error: --sensitivity .* if --gaps is floor"),
        ("--nu 1 --round-time 1s", "number without a unit, got '1s'"),
        (
            "--nu 1 --gains given",
            "given, line 1: expected min_gain, or 2 columns .*, got 'h2_1,h2_2,h2_3'",
            "h2_1,h2_2,h2_3\n1,1,1\n",
        ),
    ],
    "stream --scenario my.toml --state new": [
        ("--nu 1", "standard input is empty", ""),
        ("--nu 1", "standard input or output is closed", None),
        ("--nu 1", "b'min_gain' may be cut off", "min_gain"),
        ("--nu 1 --policy optimal", "Optimal needs all rounds in advance"),
        ("--nu 1 --state .", "it is not a regular file"),
        ("--nu 1 --round-time 1", "a line of a stream is a round"),
        ("--nu 1 --state past.csv --past past.csv", "is the file of --past"),
        ("--nu 1 --state mine.py", "mine.py is no journal: line 1"),
        (
            "--epsilon 2 --policy truncated",
            "min_gain|h2_1 to h2_2",
            "min_gain\n1e-12\n",
        ),
    ],
    "sweep --store new": [
        ("given", "holds no runs", "runs = []"),
        ("given", "block 1: reading must be", BLOCK.replace('reading = "a"', "")),
        (
            "given",
            "block 2: 'speed'",
            BLOCK + BLOCK.replace('"a"', '"b"') + "speed = 3\n",
        ),
        (
            "given",
            "block 1: seed must be .*, got -1",
            BLOCK.replace("seed = 0", "seed = [0, -1]"),
        ),
        ("given", "block 1: nu is an empty list", BLOCK.replace("[0.5, 2]", "[]")),
        (
            "given",
            "'a' has the run [0-9a-f]{16} twice",
            BLOCK.replace("[0.5, 2]", "[0.5, 0.5]"),
        ),
        (
            "given",
            "budget_mode must be .* got 'soft'",
            BLOCK.replace("EqualAlloc", "learn:budget_mode=soft"),
        ),
        ("sweep.toml --jobs 0", "jobs must be >= 1, got 0"),
        (
            "sweep.toml --out nowhere/x.csv",
            "--out 'nowhere/x.csv' cannot be written: there is no folder",
        ),
        ("sweep.toml --store base.toml", "store 'base.toml' must be a folder"),
    ],
    "train --rounds 2 --out new.csv --history new-too.csv": [
        ("--epsilon 2 --channel beamforming:antennas=2", "with one receive chain"),
        ("--nu 1 --dataset mnist", "download it once, python -c "),
        (
            "--nu 1 --out new.csv --history ./new.csv",
            "--history 'new.csv' is the file of --out",
        ),
    ],
}
CASES = [(usual, *case) for usual, cases in REFUSED.items() for case in cases]


def contents(folder):
    return {
        path: path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
        if "__pycache__" not in str(path)
    }


@pytest.mark.filterwarnings(
    "ignore:1 rows or points are not in the figure"
)  # a note, before the error
@pytest.mark.parametrize(
    ("usual", "more", "message", "content"), [(*case, WHOLE)[:4] for case in CASES]
)
def test_what_is_wrong_is_one_line_and_changes_no_file(
    place, monkeypatch, capsys, usual, more, message, content
):
    for name, text in (FILES | {"given": content or ""}).items():
        (place / name).write_text(text)
    monkeypatch.setenv("ADASCALE_DATA", str(place))
    monkeypatch.setattr(
        sys,
        "stdin",
        None if content is None else io.TextIOWrapper(io.BytesIO(content.encode())),
    )
    before = contents(place)
    command, *arguments = overridden(usual, *shlex.split(more))
    line = refused(capsys, command, *arguments, heading=command == "stream")
    assert re.search(message, line)
    assert len(line) < 400 + len(str(place))
    assert line.isprintable()
    assert contents(place) == before
