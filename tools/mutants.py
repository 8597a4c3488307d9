"""Change the source in small ways, one at a time, and see whether the tests notice.

``python tools/mutants.py FOLDER [GROUP ...]``

The changes are cosmic-ray's, one replacement an operator: ``+`` to ``-``, ``<`` to ``<=``, a number up by one, a
condition negated, a loop without rounds.  First every test of a group runs by itself: which lines does it run, and for
how long?  Then each change is tried by the tests that run its statement, the quickest first and for half a minute at
most, in a fork of a process that has imported all but the package.  Where a change may reach a compiled function,
nothing is compiled, as compiling takes longer than most tests.

Verdicts are kept in FOLDER.  One holds while the changed file does what it did, and the test that noticed, or else each
test that runs the statement, is as it was.  ``--sample N`` tries N changes of a group, drawn by a fixed seed.  Where
all changes of all groups have a verdict, the table of ``results/mutation.md`` is written anew.
"""

import argparse
import collections
import functools
import gc
import importlib
import importlib.machinery
import itertools
import json
import multiprocessing.connection
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import coverage
import numba
import pytest
from source_changes import around, changes, checksum, may_be_compiled, of_test, parsed, statement

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("adascale", "companion", "tests", "tools", "conftest.py", "pyproject.toml")
TABLE = ROOT / "results" / "mutation.md"

# What is changed, and which tests should notice: none that is slow, nor one of the references.
ENDS = [f"tests/test_{each}.py" for each in ("problem", "extreme_numbers", "checks")]
POLICIES = ("tests/policies", *ENDS, "-k", "not without_limit and not extreme")
FAST = "not million and not tenth and not reference and not little_memory"
CONVEXITY = "tests/test_problem_theory.py", "tests/test_privacy_theorems.py"
PARTS = "", "_digits", "_ends", "_parts", "_peers"
EXACT = [f"tests/accounting/test_exact{each}.py" for each in PARTS]
GROUPS = {
    "tuning": ("adascale/tuning.py", ["tests/test_tuning.py"]),
    "problem": ("adascale/problem.py", POLICIES),
    "gradients": ("adascale/learning/gradients/*.py", ["tests/learning/gradients"]),
    "policies": ("adascale/policies/*.py", POLICIES),
    "accounting": ("adascale/accounting/*.py", ["tests/accounting", *CONVEXITY, "-k", FAST]),
    "exact": ("adascale/accounting/exact/*.py", [*EXACT, "-k", FAST]),
}
# A warning of NumPy's scalars is no error where the compiled function would give none.
PYTEST = "-x -q -p _hypothesis_pytestplugin -p no:cacheprovider --assert=plain"
PYTEST += " --hypothesis-profile unshrunk -W ignore::RuntimeWarning"
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # each plugin takes a second
SLOW, PATIENCE = 6, 30  # seconds: of a test that is slow uncompiled, and of all tests for a change
IMPORTED = "hypothesis.strategies", "matplotlib", "mpmath", "opacus", "pandas", "scipy.optimize", "scipy.stats", "torch"


def files_of(group):
    return sorted(map(str, Path().glob(GROUPS[group][0])))


def forks(task, arguments, jobs):
    """A process of its own for each argument: the argument, what the task said last, and how it ended."""
    context, waiting, running = multiprocessing.get_context("fork"), iter(arguments), {}
    while True:
        for argument in itertools.islice(waiting, jobs - len(running)):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=task, args=(argument, sender.send))
            process.start()
            sender.close()
            running[receiver] = [argument, None, process]
        if not running:
            return
        for receiver in multiprocessing.connection.wait(running):
            try:
                running[receiver][1] = receiver.recv()
            except EOFError:
                argument, said, process = running.pop(receiver)
                process.join()
                yield argument, said, process.exitcode


def limit(seconds):
    """Let this process have so many more seconds of a processor, which do not depend on other work."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds + 1), resource.RLIM_INFINITY))


def run_tests(group, plugin):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    pytest.main([*PYTEST.split(), *GROUPS[group][1]], plugins=[plugin])
    imported = getattr(sys.modules.get("adascale"), "__file__", None)
    assert imported is None or Path(imported).is_relative_to(Path.cwd()), f"{imported} was imported"


class Recorder:
    """Each test by itself, where no other has filled a cache: which lines it runs, and how many seconds it takes.

    A first pass runs all uncompiled, up to SLOW seconds.  What is slow comes again in a second, compiled.
    """

    def __init__(self, group, save, known, jobs, compiled, say):
        self.files, self.save, self.jobs, self.compiled, self.say = files_of(group), save, jobs, compiled, say
        self.known = {name: test for name, test in known.items() if test["content"] == of_test(name)}
        self.failed, self.imports = "", self.measure()

    def measure(self):
        measured = coverage.Coverage(data_file=None, config_file=False, include=self.files)
        measured.set_option("run:disable_warnings", ["no-data-collected"])  # not every test runs what is changed
        measured.start()
        return measured

    def lines(self, measured):
        measured.stop()
        data = measured.get_data()
        return {os.path.relpath(file): data.lines(file) for file in data.measured_files()}

    def pytest_runtestloop(self, session):
        imports, tests = self.lines(self.imports), {}
        for item in session.items:
            if item.nodeid in self.known and not (self.compiled and not self.known[item.nodeid]["seconds"]):
                tests[item.nodeid] = self.known[item.nodeid]
        todo = [item for item in session.items if item.nodeid not in tests]
        for item, said, code in forks(self.one, todo, self.jobs):
            if code or said["failed"]:
                self.say(f"without a change, {item.nodeid} fails: {said and said['failed']}")
                return True
            tests[item.nodeid] = said
            self.save(imports, tests)
        self.say(self.save(imports, tests))
        return True

    def one(self, item, say):
        measured, before = self.measure(), time.process_time()

        def finish(*signalled):
            if signalled and "coverage" in signalled[1].f_code.co_filename:  # it may hold its lock: a second later
                return limit(1)
            seconds, lines = time.process_time() - before, self.lines(measured)
            for file, earlier in self.known.get(item.nodeid, {}).get("lines", {}).items():
                lines[file] = sorted({*earlier, *lines.get(file, ())})
            said = {"seconds": None if signalled else seconds, "slow": self.compiled or bool(signalled)}
            say(said | {"content": of_test(item.nodeid), "lines": lines, "failed": self.failed})
            os._exit(0)  # at once, as in a signal

        if not self.compiled:
            signal.signal(signal.SIGXCPU, finish)
            limit(SLOW)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        finish()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed += report.longreprtext


def record(folder, group, jobs):
    """Return what the recorder says of a group. A test that is as it was does not run again."""
    file, sources = folder / f"record-{group}.json", checksum([parsed(file)[0] for file in files_of(group)])
    found = json.loads(file.read_text()) if file.exists() else {"sources": None}
    if found["sources"] != sources:
        found = {"tests": {}}

    def save(imports, tests):
        record = {"sources": sources, "imports": imports, "tests": tests}
        new = file.with_suffix(".new")
        new.write_text(json.dumps(record))
        new.replace(file)
        return record

    def task(compiled, say):
        numba.config.DISABLE_JIT = not compiled
        run_tests(group, Recorder(group, save, found["tests"], jobs, compiled, say))

    for compiled in (False, True):
        ((_, said, _),) = forks(task, [compiled], 1)
        if not isinstance(said, dict):
            raise SystemExit(said or f"without a change, the tests of {group} cannot be collected")
        found = said
    return found


def tests_of(change, known):
    """The tests that run a change's statement, with their seconds; all of them if it is run by an import.

    None that is slow uncompiled, where the change may reach compiled functions.
    """
    lines, compiled = set(statement(change.file, change.line)), not may_be_compiled(change.file, change.line)
    every = lines.intersection(known["imports"].get(change.file, ()))
    return {
        name: test["seconds"]
        for name, test in known["tests"].items()
        if (compiled or not test["slow"]) and (every or lines.intersection(test["lines"].get(change.file, ())))
    }


class Chosen:
    """Some tests, in this order, each with a limit of time."""

    def __init__(self, tests, say):
        self.tests, self.say, self.end = tests, say, PATIENCE + time.process_time()
        self.begin(None, 60)

    def begin(self, test, seconds):
        limit(seconds)
        self.say({"verdict": "late", "test": test})  # so it is, unless more is said

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        known = {item.nodeid: item for item in items}
        items[:] = [known[name] for name in self.tests if name in known]

    def verdict(self, verdict, test=None):
        self.say({"verdict": verdict, "test": test})
        os._exit(0)  # the rest of the session would take a second

    def pytest_runtest_logstart(self, nodeid):
        if time.process_time() > self.end:
            self.verdict("left")
        self.begin(nodeid, 4 + 3 * self.tests[nodeid])

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.verdict("killed", report.nodeid)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_sessionfinish(self, exitstatus):
        if exitstatus in (0, 5):  # all passed, or there are none
            self.verdict("left")


def attempt(group, known, often, change, say):
    """Try a change, or None, by the quickest tests first; those that noticed changes nearby count as quicker."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    tests = {name: test["seconds"] for name, test in known["tests"].items()}
    if change:
        numba.config.DISABLE_JIT = may_be_compiled(change.file, change.line)
        near, get_code = around(change.file, change.line), importlib.machinery.SourceFileLoader.get_code

        def changed(self, name):
            here = self.path == str(Path.cwd() / change.file)
            return compile(change.source, self.path, "exec") if here else get_code(self, name)

        importlib.machinery.SourceFileLoader.get_code = changed
        tests = tests_of(change, known)
        tests = dict(sorted(tests.items(), key=lambda test: test[1] / (1 + 4 * often[near, test[0]])))
    run_tests(group, Chosen(tests, say))


def stamp(change, said, known):
    """What a verdict depends on beside the changed file."""
    names = [said["test"]] if said["test"] else sorted(tests_of(change, known))
    return checksum([[name, of_test(name)] for name in names])


def kept_verdicts(folder, found, known):
    """The verdicts of these changes that hold."""
    file = folder / "verdicts.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    kept = {each["key"]: each for each in lines}
    pairs = [(change, kept[change.key]) for change in found if change.key in kept]
    return {change.key: said for change, said in pairs if said["stamp"] == stamp(change, said, known)}


def run(folder, group, found, verdicts, known, jobs):
    """Try the changes that have no verdict yet, and write down what comes of each."""
    tests = ((change, verdicts[change.key]["test"]) for change in found if change.key in verdicts)
    often = collections.Counter((around(change.file, change.line), test) for change, test in tests)
    found = [change for change in found if change.key not in verdicts]
    task = functools.partial(attempt, group, known, often)
    if found:
        ((_, said, code),) = forks(task, [None], 1)
        if code or said["verdict"] != "left":
            raise SystemExit(f"without a change, {said['test']} fails")
    for change, said, code in forks(task, found, jobs):
        if said["verdict"] == "late" and code != -signal.SIGXCPU:
            if code == 0:
                raise SystemExit(f"no verdict on {change}")
            said["verdict"] = "killed"  # the process crashed
        often[around(change.file, change.line), said["test"]] += 1
        with (folder / "verdicts.jsonl").open("a") as file:
            file.write(json.dumps({"key": change.key} | said | {"stamp": stamp(change, said, known)}) + "\n")
        if said["verdict"] == "left":
            print(change, flush=True)


def argued(file):
    """Return how many changes of a file the page argues to keep: a row of the number at its end, or of one."""
    section = TABLE.read_text().partition("\n## Argued")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w/]+\.py)`:? [^|]*?(?:\((\d+)\))? \|", section, re.MULTILINE)
    return sum(int(number or 1) for name, number in rows if file.endswith(f"/{name}"))


def report(groups):
    """Return the table of results/mutation.md."""
    rows = {}
    for group, (found, verdicts) in groups.items():
        said = collections.Counter(verdicts[each.key]["verdict"] for each in found if each.key in verdicts)
        left = collections.Counter(each.file for each in found if verdicts.get(each.key, {}).get("verdict") == "left")
        for file in files_of(group):
            if left[file] != argued(file):
                print(f"{file}: {left[file]} are left, {argued(file)} are argued")
        kept = sum(min(left[file], argued(file)) for file in files_of(group))
        numbers = *(said[each] for each in ("killed", "late", "left")), kept, said["left"] - kept
        rows[f"`{GROUPS[group][0].removeprefix('adascale/')}`"] = len(found), said.total(), *numbers
    rows["together"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    names = "group", "changes", "tried", "killed", "late", "left", "argued", "open"
    table = [names, ["---"] * len(names), *((name, *row) for name, row in rows.items())]
    return "".join("| " + " | ".join(map(str, row)) + " |\n" for row in table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where verdicts are kept")
    parser.add_argument("group", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; default all")
    parser.add_argument("--cosmic-ray", metavar="PYTHON", help="the interpreter that has cosmic-ray")
    parser.add_argument("--sample", type=int, metavar="N", help="changes a group; default all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="at a time; default all cores")
    given = parser.parse_args()
    if unknown := set(given.group) - set(GROUPS):
        raise SystemExit(f"no group is named {min(unknown)}; there are {', '.join(GROUPS)}")
    folder, groups = given.folder.resolve(), {}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        for name in COPIED:
            source, copy = ROOT / name, Path(place, name)
            shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
        os.chdir(place)
        sys.path.insert(0, place)
        os.environ |= ENVIRONMENT
        for name in IMPORTED:
            importlib.import_module(name)
        gc.freeze()
        for group in given.group or GROUPS:
            known = record(folder, group, given.jobs)
            found = [*changes(folder, files_of(group), given.cosmic_ray)]
            random.Random(0).shuffle(found)
            run(folder, group, found[: given.sample], kept_verdicts(folder, found, known), known, given.jobs)
            verdicts = kept_verdicts(folder, found, known)
            groups[group] = found, verdicts
            for change in sorted(found, key=lambda each: (each.file, each.line)):
                if verdicts.get(change.key, {}).get("verdict") == "left":
                    print(change, "" if tests_of(change, known) else "\n  no test runs it")
        print(table := report(groups))
        if [*groups] == [*GROUPS] and all(len(found) == len(verdicts) for found, verdicts in groups.values()):
            TABLE.write_text(re.sub(r"\| group \|.*?\n\n", table + "\n", TABLE.read_text(), count=1, flags=re.DOTALL))


if __name__ == "__main__":
    main()
