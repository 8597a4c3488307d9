"""``adascale stream``: a round at a time, as a server calls it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adascale.cli import causal, common

if TYPE_CHECKING:
    from adascale.channel import GainLines
    from adascale.streaming import Stream

DESCRIPTION = """\
Answer the gains of each round with a receive scaling, before the next round is read.

Standard input is a header and then one line of gains a round: a table as 'adascale schedule' reads it (min_gain, or
h2_1 ... h2_M, or complex h_1 ... h_M). Standard output is a header, and then for each line

  round,eta,noise_energy,budget_left,epsilon

with rounds from 0 to T - 1, noise_energy = d sigma_n^2 / eta, what is left of T nu, which a policy that keeps nu on
average may overdraw, and the DP leakage of the rounds so far at delta. The line 'skip' is a round in which nobody
transmits: eta is 0, noise_energy inf, and nothing is spent. A comment has no answer. After round T - 1 it ends, and so
does every later start. A line that is wrong, or lacks its line break at the end of the input, is no round. It has the
answer error,round,"reason", quotes doubled: the gains of that round are to be sent again. Standard error says so as
well, and the exit code is 1 if it was the last line.

The answer is on the disk, in the file of --state, before it is written. Killed at any moment and called again in the
same way, it reads the header again and goes on with the next round, and decides as if nothing had happened: send it the
first line that had no answer. If that was a line whose answer was lost with the process, it has the answer that it had,
and is not counted twice; standard error says so, and the answer. A new round with the same gains is then to be sent
once more. Where lines have a column round, their numbers have to follow each other, over all starts, and the last line
can be sent again at any time. A state that was emptied, cut off, altered or begun with other options is refused, but an
older copy of the whole file cannot be recognised: what was spent since then is spent again.

Policies, --past, --promise and --penalty are as in 'adascale schedule', T and nu those of the first start. Epsilon is
taken at the best of the orders 1.1 to 63; over few rounds, --orders 1024 lowers it."""

EXAMPLE = "adascale stream --scenario my.toml --policy learn --nu 0.04 --state run.state < gains.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    common.add_scenario(parser)
    common.add_orders(parser)
    parser.add_argument("--delta", type=float, default=1e-5, help="delta of the DP leakage (default: 1e-5)")
    parser.add_argument("--unit", choices=("linear", "db"), default="linear", help="of the gains (default: linear)")
    parser.add_argument("--nu", type=float, required=True, help="convergence level: mean extra noise energy a round")
    causal.add_arguments(parser)
    parser.add_argument("--state", type=Path, required=True, metavar="FILE", help="where the rounds so far are kept")


def run(options: argparse.Namespace) -> None:
    """Do it."""
    from adascale.accounting import DEFAULT_ORDERS, order_grid
    from adascale.channel import GainLines
    from adascale.policies import OnlinePolicy
    from adascale.streaming import Answer, Stream

    inputs = common.input_files("--scenario", options.scenario) | {"--past": options.past}
    common.check_outputs(inputs, {"--state": options.state})
    scenario = common.read_scenario(options.scenario).scenario
    name, policy, _ = causal.choose(options, scenario)
    if not isinstance(policy, OnlinePolicy):
        raise ValueError(f"--policy {name} sees all rounds at once; a stream needs one that decides round by round")
    orders = DEFAULT_ORDERS if options.orders is None else order_grid(*options.orders)
    with common.naming_own_code():
        kept = {"delta": options.delta, "orders": orders, "unit": options.unit}
        stream = Stream(policy, scenario, options.nu, options.state, **kept)
    with stream:
        if stream.last is not None:
            _say(f"note: {options.state} goes on with round {_next(stream)}; the last answer was {stream.last.line()}")
        print(",".join(Answer._fields), flush=True)
        _answer_all(stream, GainLines("standard input", scenario, options.unit), options.state)
        if stream.finished:
            _say(f"note: all {scenario.num_rounds} rounds are answered")
            if stream.orders_too_few:
                _say(
                    "note: epsilon is that of the first or the last order; more of them, as with --orders 1.01,1024, "
                    "may lower it"
                )


def stopped(options: argparse.Namespace) -> str:
    """What is left of it."""
    return f"the same command goes on from what {options.state} holds"


def _next(stream: Stream) -> str:
    return f"{stream.round}, or {stream.round - 1} if its line comes again" if stream.pending else f"{stream.round}"


def _answer_all(stream: Stream, lines: GainLines, state: Path) -> None:
    """Answer each line that has an answer, and say of a wrong one what is wrong."""
    try:
        given = sys.stdin.buffer
    except AttributeError:  # there is none
        raise ValueError("standard input is closed; expected a header and one line of gains a round") from None
    refused, noted = False, False
    while stream.pending or not stream.finished:
        if not (line := given.readline()):
            break
        found, before = None, stream.last
        try:
            comments, skips = line.lstrip().startswith(b"#"), lines.has_header and line.strip().lower() == b"skip"
            if not (line.endswith(b"\n") or comments):
                raise ValueError(f"standard input ends without a line break, so {line!r:.80} may be cut off")
            found = lines.read(b"#" if skips else line)  # a comment, so that its line is counted
            if found is None and not skips:
                continue
            with common.naming_own_code():
                answer = stream.answer(found.min_gain, found.number) if found else stream.skip()
        except (ValueError, RuntimeError, ArithmeticError) as error:
            if not lines.has_header:
                raise
            reason, refused = common.one_line(error), not stream.finished
            _say(f"adascale stream: error: {reason}" + f"; round {_next(stream)} is to be sent again" * refused)
            quoted = reason.replace('"', '""').encode("ascii", "backslashreplace").decode()
            print(f'error,{stream.round - stream.pending},"{quoted}"', flush=True)
            continue
        print(answer.line(), flush=True)
        refused = False
        stream.passed_on()
        if before is None:
            _say(f"note: {state} is new, and begins with round 0")
        elif answer is before and not (found and found.number is not None):
            again = "was answered again; if this line was a new round with the same gains, send it once more"
            _say(f"note: round {answer.round} {again}")
        if found and found.above_one and not noted:
            _say(f"note: {found.above_one}: more power received than sent; gains in dB need --unit db")
            noted = True
    if not (lines.has_header or stream.finished):
        raise ValueError("standard input is empty; expected a header and one line of gains a round")
    if refused:
        raise RuntimeError(f"the last line was refused; round {_next(stream)} has no answer")


def _say(line: str) -> None:
    print(" ".join(line.split()), file=sys.stderr, flush=True)  # a file's name may have a line break
