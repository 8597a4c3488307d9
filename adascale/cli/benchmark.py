"""Compare policies at equal total noise energy in the frozen scenarios of a benchmark.

Version 1 has five scenarios, three totals W in each (.5, 1 and 2 times the median floor) and 20 realisations. DIR gets
the table as .csv, .md and .tex (for booktabs), a figure for each scenario, and the versions of the software.

A policy reaches W where the floors are below it. Epsilons are geometric means over the realisations that it reaches: in
each, epsilon is proven and holds for every device, and mean epsilon is the mean over devices, which is no guarantee.
Ratios to Optimal, with a 95 % t interval, over those that both reach, if its noise is not above W. At -6 dB, the
server can cancel all but -6 dB of the noise. --policy my_module:MyPolicy adds your policy, as in 'adascale leakage'.
--train adds the scenario digits, with the test accuracy (many minutes; extra: learn).

example:
  adascale benchmark --version 1 --out benchmark
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import adascale
from adascale.cli import common, report
from adascale.files import read_toml

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(adascale.__file__).parent
THREAT = """Threat: an honest server with one receive chain that cannot cancel noise; one sample added or removed, \
everything else known."""


def run(options: argparse.Namespace) -> None:
    """Write the table, the figures and the versions, and print the table."""
    import pandas as pd

    from adascale.runs.provenance import write_provenance

    name = f"benchmark-{options.version}"
    content, out = read_toml(FOLDER / f"{name}.toml"), options.out / f"{name}.csv"
    found = {
        each: adascale.comparison.find_method(each)
        for each in (*content["policies"], *(options.policy or ()))
    }
    chosen = {
        content["policies"].get(each, label): method
        for each, (label, method) in found.items()
    }
    if len(chosen) < len(found):
        raise ValueError(f"duplicate --policy, got {', '.join(options.policy)}")
    orders = None if options.accountant else tuple(content["orders"])
    accountant = common.find_accountant(options.accountant or "renyi", orders)
    options.out.mkdir(parents=True, exist_ok=True)
    common.check_outputs({}, {"--out": out})
    tables, files = [], {}
    with common.noting_orders():
        for setting in content["scenarios"]:
            if options.train or "training" not in setting:
                rows = _rows(setting, chosen, accountant, content)
                tables.append(_table(rows))
                figure: Any = report.draw(
                    rows.dropna(subset="ratio"), "ratio", "target_total"
                )
                figure.supxlabel(
                    THREAT.replace("; ", ";\n"), fontsize=6, family="STIXGeneral"
                )
                files[out.with_name(f"{name}-{setting['name']}.pdf")] = report.picture(
                    figure, ".pdf"
                )
    markdown, latex = (
        "\n\n".join(report.format_table(x, form) for x in tables)
        for form in ("markdown", "latex")
    )
    files |= {
        out.with_suffix(".md"): f"{markdown}\n\n{THREAT}\n",
        out.with_suffix(".tex"): f"{latex}\n\n{THREAT}\n",
    }
    files[out] = pd.concat(tables).assign(threat=THREAT)
    common.print_and_write(f"{markdown}\n\n{THREAT}", files)
    write_provenance(
        out,
        f"adascale benchmark --version {options.version}",
        "numpy",
        "scipy",
        threat=THREAT,
    )


def _rows(
    setting: Any, chosen: dict[str, Any], accountant: Any, content: dict[str, Any]
) -> "pd.DataFrame":
    """Return a row for every total, policy and realisation of a scenario."""
    scenario = replace(
        adascale.presets.load(setting["preset"]).scenario, name=setting["name"]
    )
    weak = replace(scenario, privacy_noise_power=10**-0.6 * scenario.noise_power)
    channel, keys = common.find_channel(setting["channel"]), ["target_total", "seed"]
    how = {
        "channel": channel,
        "accountant": accountant,
        "delta": content["delta"],
        "progress": sys.stderr.isatty(),
    }
    lanes = setting["totals"], range(content["realisations"]), chosen
    rows, exposed = (
        adascale.leakage_table(each, *lanes, target="total", **how)
        for each in (scenario, weak)
    )
    optimum = rows[rows["policy"] == next(iter(chosen))].set_index(keys)["epsilon"]
    rows = rows.join(optimum.rename("ratio"), on=keys).assign(
        exposed=exposed["epsilon"], accuracy=np.nan
    )
    met = (
        rows["total"] <= 1.001 * rows["target_total"]
    )  # found to 1e-9; more noise than W would be no fair ratio
    rows["ratio"] = (rows["epsilon"] / rows["ratio"]).where(met)
    if training := setting.get("training"):
        few = rows[(rows["seed"] < content["trainings"]) & rows["epsilon"].notna()]
        trained = (
            _accuracy(scenario, channel, chosen[row["policy"]], row, training)
            for row in few.to_dict("records")
        )
        rows.loc[few.index, "accuracy"] = list(trained)
    return rows.sort_values("target_total", kind="stable")


def _accuracy(
    scenario: Any, channel: Any, method: Any, row: dict[str, Any], training: str
) -> float:
    """Train at the total and on the realisation of a row, and return the test accuracy."""
    from adascale.learning import Training, load, train

    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, row["seed"])
    min_gain = scenario.min_gain(drawn.gain)
    if getattr(method, "chooses", False):
        policy = method.choosing(scenario, drawn.gain, row["target_total"])
        schedule = policy.select(scenario, drawn.gain)
        # the training does not look at the budget, and the policy has a total
        problem = adascale.ReceiveScalingProblem(scenario, min_gain, 1.0)
    else:
        problem = adascale.ReceiveScalingProblem(scenario, min_gain, row["nu"])
        make = adascale.comparison.as_method(method, channel)
        policy = make(problem, scenario.mean_gain(drawn.path_loss))
        schedule = policy.schedule(problem)
    settings = Training.preset(training)
    dataset = load(settings.dataset, settings.input_scaling)
    rounds = problem.num_rounds
    trained = train(problem, schedule, settings, dataset, row["seed"], every=rounds)
    return float(trained.history["accuracy"].iloc[-1])


def _table(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the table of a scenario as text."""
    from adascale.statistics import log_interval

    def part(number: int = 0) -> Any:
        return lambda x: (
            log_interval(x.dropna())[number] if x.count() > 2 * (number > 0) else np.nan
        )

    keys = {
        "dataset": "scenario",
        "target_total": "W",
        "policy": "policy",
        "kind": "kind",
        "knows": "knows",
    }
    columns = {
        "reached": ("epsilon", lambda x: f"{x.count()}/{x.size}"),
        "participation": ("participation", "mean"),
    }
    columns |= {"least": ("participation_min", "min"), "epsilon": ("epsilon", part())}
    columns |= {
        "mean epsilon": ("epsilon_mean", part()),
        "epsilon at -6 dB": ("exposed", part()),
    }
    columns |= {
        "ratio": ("ratio", part()),
        "ratio from": ("ratio", part(1)),
        "to": ("ratio", part(2)),
    }
    columns |= (
        {"accuracy": ("accuracy", "mean")} if rows["accuracy"].notna().any() else {}
    )
    table = (
        rows.groupby([*keys], sort=False)
        .agg(**columns)
        .reset_index()
        .rename(columns=keys)
    )
    return table.map(
        lambda x: x if isinstance(x, str) else f"{x:.4g}".replace("nan", "")
    )
