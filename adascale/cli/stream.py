"""Answer the gains of each round with a receive scaling, before the next round is read.

Standard input is a header and then one line of gains per round: a table as 'adascale schedule' reads it (min_gain, or
h2_1 ... h2_M, or complex h_1 ... h_M, or received dBm), in its units. After a start, --gaps hold has nothing to repeat
before the first value of a link, and --max-gaps counts anew, as a share of T rounds. Standard output is a header, and
then for each line

  round,eta,noise_energy,budget_left,epsilon,epsilon_mean,made_with

with rounds from 0 to T - 1, noise_energy = d sigma_n^2 / eta, the rest of T nu (negative if a policy that meets nu on
average has overspent), and the epsilon of the rounds so far: epsilon is proven and holds for every device, and
epsilon_mean is the mean over devices, which is no guarantee. The line 'skip' is a round in which no device transmits:
eta is 0, noise_energy is inf, and nothing is spent. A comment gets no answer. The command ends after round T - 1. A
line that is wrong, or lacks its line break at the end of the input, is not counted as a round. Its answer is
error,round,"reason", with quotes doubled: send the gains of that round again. The error is also printed on standard
error, and the exit code is 1 if it was in the last line.

Every answer is in the file --state before it is written. If the process is killed, start it again in the same way and
send the header and then the first line without an answer. If that line was answered but the answer was lost, it gets
the same answer, is not counted twice, and a note says so; if it was in fact a new round with the same gains, send it
once more. If your client dies instead, a line that it sends again is one more round, unless lines have a column round.
Its numbers begin at 0 or 1 and are consecutive across all starts, and the last one gets the same answer at any time. A
state that was corrupted or begun with other options is refused, but one that was cut short, or an older copy of it,
cannot be recognised: what was spent since is spent again. One process at a time can use a state.

An answer counts as passed on once standard output has taken it. If its reader has gone, the command ends with exit code
141, and with 2 if it is on a full disk; the answer that it could not write is given again when its line is sent again.

Policies, --past and --epsilon are as in 'adascale schedule'; T and nu are those of the first start. Epsilon is taken at
the best of the orders 1.1 to 63; over few rounds, --orders 1024 lowers it. It is larger than that of the exact
accountant, which --epsilon means, so the column may end above --epsilon although no device exceeds that. With --epsilon
there is no column budget_left. For policies that choose who sends, the gains are those of all devices, and an answer is

  round,eta,noise_energy,epsilon,epsilon_mean,senders,made_with

with the numbers of the devices that send, separated by blanks.

example:
  adascale stream --scenario my.toml --policy learn --nu 0.04 --state run.state < gains.csv
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import adascale
from adascale.cli import causal, common, marks
from adascale.cli import options as shared
from adascale.cli.options import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.share("scenario", "interference", *shared.READING)
    shared.share_causal_policy(parser)
    parser.share("delta", "orders")
    parser.add_argument(
        "--state",
        help="file of the completed rounds, used to resume",
        required=True,
        metavar="FILE",
        type=Path,
    )


def run(options: argparse.Namespace) -> None:
    """Answer every line of standard input."""
    if sys.stdin is None or sys.stdout is None:
        raise ValueError(
            "standard input or output is closed; lines are read from one, and answers written to the other"
        )
    inputs = common.input_files("--scenario", options.scenario) | {
        "--past": options.past
    }
    common.check_outputs(inputs, {"--state": options.state})
    scenario = common.read_scenario(options.scenario, options.interference).scenario
    name, policy, _ = causal.choose(options, scenario)
    if not isinstance(policy, adascale.OnlinePolicy | adascale.policies.Selecting):
        raise ValueError(
            f"--policy {name} needs all rounds in advance; stream requires an online policy"
        )
    orders = adascale.accounting.DEFAULT_ORDERS
    if options.orders:
        orders = adascale.accounting.order_grid(*options.orders)
    # a state is refused at another power, with which the same numbers are other gains
    unit = options.unit
    if options.transmit_power is not None:
        unit += f" of {options.transmit_power} sent"
    made_with = marks.mark(scenario, options.interference, policy=name, nu=options.nu)
    with adascale.Stream(
        policy,
        scenario,
        options.nu,
        options.state,
        delta=options.delta,
        orders=orders,
        unit=unit,
    ) as stream:
        if stream.last is not None:
            last = f"{stream.last.line()},{made_with}"
            common.note(f"{options.state} {_goes_on(stream, last)}")
        print(*stream.columns, marks.COLUMN, sep=",", flush=True)
        chooses = isinstance(policy, adascale.policies.Selecting)
        lines = adascale.channel.GainLines(
            "standard input", scenario, common.reading(options), each_device=chooses
        )
        _Server(stream, lines, f"{options.state}", made_with).serve()
        if stream.finished:
            common.note(f"all {scenario.num_rounds} rounds are answered")


def _goes_on(stream: adascale.Stream, last: str) -> str:
    """Say where a resumed stream goes on; ``last`` is the line of its last answer."""
    text = f"goes on with round {_next(stream)}; the last answer was {last}"
    if stream.pending or stream.finished:
        return text
    return f"{text}; without a column round, its line must not come again"


def _next(stream: adascale.Stream) -> str:
    """Return the number of the round that is expected; the last one may come again while its answer is pending."""
    if not stream.pending:
        return f"{stream.round}"
    return f"{stream.round}, or {stream.round - 1} if its line comes again"


class _Server:
    """The answers to the lines of standard input."""

    def __init__(
        self,
        stream: adascale.Stream,
        lines: adascale.channel.GainLines,
        state: str,
        made_with: str,
    ) -> None:
        self.stream, self.lines = stream, lines
        self.state, self.made_with = state, made_with
        self.refused = False  # whether the last line was
        self.noted = set[str]()  # kinds of notes on gains that were printed

    def serve(self) -> None:
        """Answer each line; the answer to a wrong line is an error."""
        stream = self.stream
        while stream.pending or not stream.finished:
            line = sys.stdin.buffer.readline()
            if not line:
                break
            before = stream.last
            try:
                answer, trace = self._answer(line)
            except (ValueError, RuntimeError, ArithmeticError) as error:
                # an error in the header, without which no line can be read
                if not self.lines.columns:
                    raise
                self._refuse(common.one_line(error))
                continue
            if answer is None:
                continue
            print(f"{answer.line()},{self.made_with}", flush=True)
            self.refused = False
            stream.passed_on()
            self._note(answer, before, trace)
        if not (self.lines.columns or stream.finished):
            raise ValueError(
                "standard input is empty; expected a header and one line of gains per round"
            )
        if self.refused:
            raise RuntimeError(
                f"the last line was refused; round {_next(stream)} has no answer"
            )

    def _answer(self, line: bytes) -> tuple[Any, Any]:
        """Return the answer and the round that was read, None for a skipped one; twice None for a comment or header."""
        comments = line.lstrip().startswith(b"#")
        if not (line.endswith(b"\n") or comments):
            raise ValueError(
                f"standard input ends without a line break, so {line!r:.80} may be cut off"
            )
        if self.lines.columns and line.strip().lower() == b"skip":
            self.lines.trace(b"#")  # as a comment, so that its line is counted
            return self.stream.skip(), None
        trace = self.lines.trace(line)
        if trace is None:
            return None, None
        gain: Any = trace.gain if self.lines.each_device else trace.min_gain
        return self.stream.answer(gain[..., 0], self.lines.place.get("round")), trace

    def _refuse(self, reason: str) -> None:
        """Answer a wrong line, after which, unless all rounds are answered, a right one has to follow."""
        self.refused = not self.stream.finished
        message = f"adascale stream: error: {reason}"
        if self.refused:
            message += f"; round {_next(self.stream)} is to be sent again"
        common.say(message)
        quoted = common.visible(reason).replace('"', '""')
        ascii_text = quoted.encode("ascii", "backslashreplace").decode()
        number = self.stream.round - self.stream.pending
        print(f'error,{number},"{ascii_text}"', flush=True)

    def _note(self, answer: Any, before: Any, trace: Any) -> None:
        """Print what is to be known of an answer, and each kind of note on gains once, with the first place."""
        numbered = trace is not None and "round" in self.lines.place
        if before is None:
            common.note(f"{self.state} is new, and begins with round 0")
        elif answer is before and not numbered:
            common.note(
                f"round {answer.round} was answered again; if this line was a new "
                "round with the same gains, send it once more"
            )
        for text in () if trace is None else trace.notes:
            kind = text.rpartition(": ")[2]
            if kind not in self.noted:
                common.note(text)
            self.noted.add(kind)
