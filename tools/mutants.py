"""Change the source in small ways, one at a time, and see whether the tests notice.

``python tools/mutants.py FOLDER [GROUP ...]``

The changes are cosmic-ray's, one replacement an operator: ``+`` to ``-``, ``<`` to ``<=``, a number up and down by one,
a condition negated, a loop without rounds.  Each is tried in a copy of the checkout under FOLDER.  A call goes on where
the last one stopped, unless the package or its tests have changed meanwhile.  ``--sample N`` tries N changes of a
group, drawn by a fixed seed; ``--report`` only lists.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import random
import resource
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("adascale", "tests", "tools", "pyproject.toml")

# What is changed, and which tests should notice. Compiled functions run uncompiled: else each change would be compiled.
KERNELS = tuple(
    f"tests/accounting/test_{name}.py" for name in ("peers", "renyi", "kernels")
)  # first, as most is found there
FAST = (
    "not million and not tenth and not told_of and not reference and not judge"  # these are slow, or of the references
)
POLICIES = ("tests/policies/test_benchmark_policies.py", "tests/policies", "-k", "not without_limit and not extreme")
GROUPS = {
    "tuning": (["adascale/tuning.py"], ["tests/test_tuning.py", "tests/test_tuning_messages.py"]),
    "problem": (["adascale/problem.py"], ["tests/test_problem.py", *POLICIES]),
    "policies": (["adascale/policies"], POLICIES),
    "accounting": (["adascale/accounting"], [*KERNELS, "tests/accounting", "-k", FAST]),
    "gradients": (["adascale/learning/gradients"], ["tests/learning/gradients"]),
}
# A warning of NumPy's scalars is no error where the compiled function would give none.
PYTEST = "-x -q -p no:cacheprovider --hypothesis-profile unshrunk -W ignore::RuntimeWarning"
PYTEST += " -W ignore::pytest.PytestAssertRewriteWarning"  # the server below has imported more than pytest expects

OPERATORS = {
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul")),
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in ("FloorDiv_Div", "Mod_Div", "BitAnd_BitOr", "BitOr_BitAnd")),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in ("Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt")),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"core/ReplaceUnaryOperator_{change}" for change in ("USub_UAdd", "Delete_Not")),
    *(f"core/Replace{change}" for change in ("TrueWithFalse", "FalseWithTrue", "AndWithOr", "OrWithAnd")),
    *(f"core/{change}" for change in ("AddNot", "ZeroIterationForLoop", "NumberReplacer", "ExceptionReplacer")),
    *(f"core/Replace{change}" for change in ("BreakWithContinue", "ContinueWithBreak")),
}


def annotations(path):
    """The lines and columns of a file's annotations: text, under ``from __future__ import annotations``."""
    spans = []
    for node in ast.walk(ast.parse(path.read_text())):
        for name in ("annotation", "returns"):
            if (found := getattr(node, name, None)) is not None:
                spans.append(((found.lineno, found.col_offset), (found.end_lineno, found.end_col_offset)))
    return spans


def checksum():
    """Of all that a verdict depends on: the package, the tests, this file."""
    total = hashlib.sha256()
    for name in COPIED:
        for path in [ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*.py")):
            total.update(path.read_bytes())
    return total.hexdigest()


def prepare(folder, group, cosmic_ray):
    """A copy of the checkout and a list of changes, or those that are there already."""
    modules, _ = GROUPS[group]
    place, stamp = folder / group, checksum()
    if (place / "stamp").exists() and (place / "stamp").read_text() == stamp:
        shutil.rmtree(place / "adascale")  # whoever was stopped left a change in it
        shutil.copytree(ROOT / "adascale", place / "adascale", ignore=shutil.ignore_patterns("__pycache__"))
        return place
    shutil.rmtree(place, ignore_errors=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / name)
    (place / "client.py").write_text(CLIENT)
    command = f"{sys.executable} -I -S client.py"
    lines = {"module-path": modules, "timeout": 1200.0, "excluded-modules": [], "test-command": command}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
    (place / "cosmic-ray.toml").write_text(f'[cosmic-ray]\n{text}[cosmic-ray.distributor]\nname = "local"\n')
    subprocess.run([cosmic_ray, "init", "cosmic-ray.toml", "session.sqlite"], cwd=place, check=True)
    ignored = {
        module: annotations(path)
        for path in place.glob("adascale/**/*.py")
        for module in [str(path.relative_to(place))]
    }
    with sqlite3.connect(place / "session.sqlite") as session:
        rows = session.execute(
            "SELECT job_id, module_path, operator_name, start_pos_row, start_pos_col FROM mutation_specs"
        )
        for job, module, operator, row, column in rows.fetchall():
            inside = any(start <= (row, column) < end for start, end in ignored[module])
            if operator not in OPERATORS or inside:
                session.execute("DELETE FROM mutation_specs WHERE job_id = ?", (job,))
                session.execute("DELETE FROM work_items WHERE job_id = ?", (job,))
    shutil.copy(place / "session.sqlite", place / "all.sqlite")
    (place / "stamp").write_text(stamp)
    return place


def draw(place, sample):
    """Leave the first ``sample`` changes of a fixed order in the session, with the verdicts that are there already."""
    with sqlite3.connect(place / "session.sqlite") as session:
        session.execute("ATTACH ? AS every", (str(place / "all.sqlite"),))
        key = "module_path, start_pos_row, start_pos_col, operator_name, occurrence, operator_args"
        jobs = [job for (job,) in session.execute(f"SELECT job_id FROM every.mutation_specs ORDER BY {key}")]
        random.Random(0).shuffle(jobs)
        for table in ("mutation_specs", "work_items"):
            session.execute(f"DELETE FROM {table}")
            for job in jobs[:sample]:
                session.execute(f"INSERT INTO {table} SELECT * FROM every.{table} WHERE job_id = ?", (job,))


def run(place, cosmic_ray):
    """Try what is left. Cosmic-ray starts the tests in the folder itself, through the server below."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(place)}
    (place / "socket").unlink(missing_ok=True)
    server = subprocess.Popen([sys.executable, __file__, str(place), "--serve"], cwd=place, env=environment)
    try:
        for step in (["baseline", "cosmic-ray.toml"], ["exec", "cosmic-ray.toml", "session.sqlite"]):
            subprocess.run([cosmic_ray, *step], cwd=place, check=True)
    finally:
        server.terminate()
        server.wait()


# Most of a short test run is imports. A server has made those that are no part of the package, and forks a change each.
IMPORTED = ("hypothesis.strategies", "matplotlib", "mpmath", "numba", "opacus", "pandas", "pytest", "scipy.optimize",
            "scipy.stats", "torch")  # fmt: skip

CLIENT = """import pathlib, socket, sys, time
end = time.time() + 600
while not pathlib.Path("socket").exists() and time.time() < end:
    time.sleep(0.1)
with socket.socket(socket.AF_UNIX) as server:
    server.connect("socket")
    said = server.makefile().read()
print(said)
sys.exit(0 if said.endswith("exit 0") else 1)
"""


def serve(place, tests):
    """One test run in a fork for each connection; the fork ends when the other side leaves."""
    for name in IMPORTED:
        importlib.import_module(name)
    limit = 600  # seconds of a processor's time, which do not depend on what else the machine does
    sys.dont_write_bytecode = True  # a file may change twice within what bytecode knows of time
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        listening.listen()
        while True:
            connection, _ = listening.accept()
            if (child := os.fork()) == 0:
                for stream in (1, 2):
                    os.dup2(connection.fileno(), stream)
                listening.close()
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                code = importlib.import_module("pytest").main([*PYTEST.split(), *tests])
                adascale = sys.modules["adascale"]

                if Path(adascale.__file__).parents[1] != place:
                    code = f"{adascale.__file__} was imported"
                sys.stdout.flush()
                os.write(1, f"\nexit {int(code) if isinstance(code, int) else code}".encode())
                os._exit(0)
            poll = select.poll()
            poll.register(connection, select.POLLHUP | select.POLLRDHUP)
            while (ended := os.wait4(child, os.WNOHANG))[0] == 0:
                if poll.poll(50):
                    os.kill(child, signal.SIGKILL)
            _, status, used = ended
            if limit == 600:  # the first is the unchanged package
                limit = 5 + int(3 * used.ru_utime)
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(b"\nlate" if os.WIFSIGNALED(status) else b"")
            connection.close()


def report(place):
    """Counts by module, then each change that no test noticed."""
    with sqlite3.connect(place / "session.sqlite") as session:
        session.execute("ATTACH ? AS every", (str(place / "all.sqlite"),))
        columns = "module_path, start_pos_row, operator_name, test_outcome, output, diff"
        tried = session.execute(f"SELECT {columns} FROM work_results JOIN mutation_specs USING (job_id) ORDER BY 1, 2")
        tried = tried.fetchall()
        generated = session.execute("SELECT module_path, count(*) FROM every.mutation_specs GROUP BY 1 ORDER BY 1")
        for module, number in generated.fetchall():
            late = sum(row[0] == module and row[4].split()[-1:] in (["late"], ["timeout"]) for row in tried)
            killed = sum(row[0] == module and row[3] == "KILLED" for row in tried) - late
            left = sum(row[0] == module and row[3] == "SURVIVED" for row in tried)
            print(
                f"{module}: {number} changes, {killed + late + left} tried, {killed} killed, {late} late, {left} left"
            )
    for module, line, operator, outcome, _, diff in tried:
        if outcome == "SURVIVED":
            changed = [text for text in diff.splitlines() if text[:1] in "+-" and text[:3] not in ("+++", "---")]
            print(f"\n{module}:{line} {operator.removeprefix('core/')}", *changed, sep="\n  ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where copies and verdicts are kept")
    parser.add_argument("group", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; default all")
    parser.add_argument("--cosmic-ray", default="cosmic-ray", metavar="PROGRAM", help="the mutation tester")
    parser.add_argument("--sample", type=int, metavar="N", help="changes a group; default all")
    parser.add_argument("--report", action="store_true", help="only list what is known")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.folder, GROUPS[given.folder.name][1])
    if unknown := set(given.group) - set(GROUPS):
        raise SystemExit(f"no group is named {min(unknown)}; there are {', '.join(GROUPS)}")
    for group in given.group or GROUPS:
        if not given.report:
            place = prepare(given.folder.resolve(), group, given.cosmic_ray)
            draw(place, given.sample)
            run(place, given.cosmic_ray)
        report(given.folder.resolve() / group)


if __name__ == "__main__":
    main()
