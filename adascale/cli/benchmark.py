"""Compare policies at equal total noise energy in the frozen scenarios of a benchmark.

Version 1 has five scenarios, three totals W in each (.5, 1 and 2 times the median floor) and 20 realisations. DIR gets
the table as .csv, .md and .tex (for booktabs), a figure for each scenario, and the versions of the software.

A policy reaches W in a realisation unless the floor is above W there. Epsilons are geometric means over the
realisations in which it does: in each, epsilon is proven and holds for every device, and mean epsilon is the mean over
devices, which is no guarantee. Ratios to Optimal, with a 95 % t interval, are over those in which both do, and the
policy has no more noise than W. At -6 dB, the server can cancel all but -6 dB of the noise. --policy my_module:MyPolicy
adds your policy, as in 'adascale leakage'. --train adds the scenario digits, with the test accuracy (many minutes;
extra: learn).

example:
  adascale benchmark --version 1 --out benchmark
"""

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import adascale
from adascale.cli import common, report
from adascale.cli.options import Parser
from adascale.comparison.costs import decide
from adascale.files import read_toml

if TYPE_CHECKING:
    import pandas as pd

    from adascale.comparison import Method
    from adascale.statistics import Interval

FOLDER = Path(adascale.__file__).parent
THREAT = """Threat: an honest server with one receive chain that cannot cancel noise; one sample added or removed, \
everything else known."""

_INTERFERENCE = -6.0  # dB of the noise that a stronger server cannot cancel
# times W: more would make a ratio unfair, and what is tuned meets W to 1e-9
_MOST_NOISE = 1.001


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    added = "; added to those of the version; may be repeated"
    parser.share("policy", more=added, action="append")
    add("--version", help="version of the benchmark", choices=("1",), required=True)
    add(
        "--train",
        help="add the scenario digits, with test accuracies",
        action="store_true",
    )
    parser.share("accountant", more=" (default: the version's)")
    parser.share("jobs", "scheduler")
    add("--out", help="folder of the files", required=True, metavar="DIR", type=Path)


def run(options: argparse.Namespace) -> None:
    """Write the table, the figures and the versions, and print the table."""
    import pandas as pd

    from adascale.runs.provenance import write_provenance

    name = f"benchmark-{options.version}"
    version = read_toml(FOLDER / f"{name}.toml")
    methods = _find_methods(version["policies"], options.policy or [])
    orders = None if options.accountant else tuple(version["orders"])
    accountant = common.find_accountant(options.accountant or "renyi", orders)
    options.out.mkdir(parents=True, exist_ok=True)
    out = options.out / f"{name}.csv"
    common.check_outputs({}, {"--out": out})
    tables = []
    files: dict[Path | None, Any] = {}
    with common.noting_orders(), common.open_executor(options) as executor:
        for setting in version["scenarios"]:
            if "training" in setting and not options.train:
                continue
            rows = _rows(setting, methods, accountant, version, executor)
            tables.append(_table(rows))
            figure: Any = report.draw(
                rows.dropna(subset="ratio"), "ratio", "target_total"
            )
            threat = THREAT.replace("; ", ";\n")
            figure.supxlabel(threat, fontsize=6, family="STIXGeneral")
            path = out.with_name(f"{name}-{setting['name']}.pdf")
            files[path] = report.picture(figure, ".pdf")
    texts = {}
    for form, suffix in (("markdown", ".md"), ("latex", ".tex")):
        parts = [*(report.format_table(table, form) for table in tables), THREAT]
        texts[form] = "\n\n".join(parts)
        files[out.with_suffix(suffix)] = texts[form] + "\n"
    files[out] = pd.concat(tables).assign(threat=THREAT)
    common.print_and_write(texts["markdown"], files)
    command = f"adascale benchmark --version {options.version}"
    write_provenance(out, command, "numpy", "scipy", threat=THREAT)


def _find_methods(names: dict[str, str], more: list[str]) -> dict[str, "Method"]:
    """Return the methods of a version, whose ``names`` stand for labels in the tables, and ``more`` by their names."""
    find_method = adascale.comparison.find_method
    methods = {label: find_method(name)[1] for name, label in names.items()}
    added = dict(map(find_method, more))
    if len(added) < len(more) or not methods.keys().isdisjoint(added):
        raise ValueError(f"duplicate --policy, got {', '.join(more)}")
    return methods | added


def _rows(
    setting: Any,
    methods: dict[str, "Method"],
    accountant: Any,
    version: dict[str, Any],
    executor: Any,
) -> "pd.DataFrame":
    """Return a row for every total, policy and realisation of a scenario, which is a ``setting`` of the version.

    ``ratio`` is to the first policy of the version, ``exposed`` the epsilon if the server can cancel most of the noise,
    and ``accuracy`` is NaN without a training.
    """
    from adascale.workers import map_tasks

    preset = adascale.presets.load(setting["preset"])
    scenario = replace(preset.scenario, name=setting["name"])
    channel = common.find_channel(setting["channel"])
    rows, exposed = (
        adascale.leakage_table(
            server,
            setting["totals"],
            range(version["realisations"]),
            methods,
            target="total",
            channel=channel,
            accountant=accountant,
            delta=version["delta"],
            progress=sys.stderr.isatty(),
            executor=executor,
        )
        for server in (scenario, common.with_less_protection(scenario, _INTERFERENCE))
    )
    keys = ["target_total", "seed"]
    optimum = rows[rows["policy"] == next(iter(methods))].set_index(keys)["epsilon"]
    ratio = rows["epsilon"] / rows.join(optimum.rename("optimum"), on=keys)["optimum"]
    rows["ratio"] = ratio.where(rows["total"] <= _MOST_NOISE * rows["target_total"])
    rows["exposed"] = exposed["epsilon"]
    rows["accuracy"] = np.nan
    if "training" in setting:
        is_trained = (rows["seed"] < version["trainings"]) & rows["epsilon"].notna()
        training = setting["training"]
        train = partial(_accuracy, scenario, channel, methods, training)
        records = rows[is_trained].to_dict("records")
        rows.loc[is_trained, "accuracy"] = [*map_tasks(train, records, executor)]
    return rows.sort_values("target_total", kind="stable")


def _accuracy(
    scenario: Any, channel: Any, methods: dict[str, "Method"], training: str, row: Any
) -> float:
    """Train at the total and on the realisation of a row, and return the test accuracy."""
    from adascale.learning import Training, load, train

    seed, method = row["seed"], methods[row["policy"]]
    draw = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    # one that chooses who sends gets the total, which may be below the floor, so that there is no nu
    budget = 1.0 if method.chooses_senders else row["nu"]
    min_gain = scenario.min_gain(draw.gain)
    problem = adascale.Problem(scenario, min_gain, budget, draw.exposure)
    _, schedule = decide(method, problem, draw, row["target_total"], channel)
    settings = Training.preset(training)
    dataset = load(settings.dataset, settings.input_scaling)
    rounds = scenario.num_rounds
    trained = train(problem, schedule, settings, dataset, seed, every=rounds)
    return float(trained.history["accuracy"].iloc[-1])


def _table(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the table of a scenario as text: over the realisations, a row per total and policy."""
    headings = {"dataset": "scenario", "target_total": "W"}
    by = ["dataset", "target_total", "policy", "kind", "knows"]

    def centre(values: "pd.Series") -> float:
        return _interval(values).centre

    columns: dict[str, Any] = {
        "reached": ("epsilon", lambda x: f"{x.count()}/{x.size}"),
        "participation": ("participation", "mean"),
        "least": ("participation_min", "min"),
        "epsilon": ("epsilon", centre),
        "mean epsilon": ("epsilon_mean", centre),
        "epsilon at -6 dB": ("exposed", centre),
        "ratio": ("ratio", centre),
        "ratio from": ("ratio", lambda x: _interval(x).low),
        "to": ("ratio", lambda x: _interval(x).high),
    }
    if rows["accuracy"].notna().any():
        columns["accuracy"] = ("accuracy", "mean")
    table = rows.groupby(by, sort=False).agg(**columns).reset_index()
    return table.rename(columns=headings).map(_text)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else f"{value:.4g}"


def _interval(values: "pd.Series") -> "Interval":
    """Return the geometric mean of the values that are not NaN, and of three or more its 95 % interval, else NaN."""
    from adascale.statistics import Interval, log_interval

    there = values.dropna()
    interval = log_interval(there) if len(there) else Interval(*[np.nan] * 3)
    return interval if len(there) > 2 else Interval(interval.centre, np.nan, np.nan)
