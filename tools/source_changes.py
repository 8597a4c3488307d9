"""All small changes of a source file, and what files, tests and statements are; for `mutants.py`."""

import ast
import functools
import hashlib
import json
import subprocess
from pathlib import Path
from typing import NamedTuple

OPERATORS = (
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul")),
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in ("FloorDiv_Div", "Mod_Div", "BitAnd_BitOr", "BitOr_BitAnd")),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in ("Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt")),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"core/ReplaceUnaryOperator_{change}" for change in ("USub_UAdd", "Delete_Not")),
    *(f"core/Replace{change}" for change in ("TrueWithFalse", "FalseWithTrue", "AndWithOr", "OrWithAnd")),
    *(f"core/{change}" for change in ("AddNot", "ZeroIterationForLoop", "NumberReplacer", "ExceptionReplacer")),
    *(f"core/Replace{change}" for change in ("BreakWithContinue", "ContinueWithBreak")),
)

# For the interpreter that has cosmic-ray: every change of a file, as a `Change` without its first field.
LIST = """
import json, os, sys
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.plugins import get_operator
source = sys.stdin.read()
tree = get_ast(source)
for name in sys.argv[1:]:
    operator = get_operator(name)()
    places = [(each, *place) for each in ast_nodes(tree) for place in enumerate(operator.mutation_positions(each))]
    for number, (node, index, ((line, column), _)) in enumerate(places):
        if os.fork() == 0:  # the parent's tree stays as it is
            others = node.parent.children
            others[others.index(node)] = operator.mutate(node, index)
            changed = tree.get_code()
            start = len(os.path.commonprefix([source, changed]))
            same = len(os.path.commonprefix([source[start:][::-1], changed[start:][::-1]]))
            text = changed[start : len(changed) - same]
            print(json.dumps([name, number, line, column, start, len(source) - same, text]), flush=True)
            os._exit(0)
        assert os.wait()[1] == 0
"""


def checksum(what):
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


@functools.cache
def parsed(file):
    source = Path(file).read_text()
    return source, ast.parse(source)


@functools.cache
def content(file, test=""):
    """A checksum of what a file does, whatever its comments are; of a file of tests, with no test but this one."""
    tree = parsed(file)[1]
    kept = [node for node in tree.body if not getattr(node, "name", "").startswith("test_") or node.name == test]
    return checksum(ast.dump(ast.Module(kept, [])))


def of_test(name):
    """The checksum of a test by its name for pytest, ``tests/test_a.py::test_b[c]``, or of a file of tests."""
    file, _, test = name.partition("::")
    return content(file, test.split("[")[0]) if Path(file).is_file() else None


def first_line(node):
    """The line where a statement begins, with its decorators."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])


@functools.cache
def statement(file, line):
    """The lines of the smallest statement around a line; of one with a body, those before the body."""
    found = range(0)
    for node in ast.walk(parsed(file)[1]):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1 if body else node.end_lineno)
            if first_line(node) <= line <= last:
                found = range(first_line(node), last + 1)  # a walk comes to the inner ones later
    return found


@functools.cache
def around(file, line):
    """The statement of a module around a line."""
    return next(each for each in parsed(file)[1].body if first_line(each) <= line <= each.end_lineno)


@functools.cache
def run_by_import():
    """The names that the package loads outside of its functions and classes."""
    nodes = (node for file in sorted(Path("adascale").rglob("*.py")) for node in parsed(str(file))[1].body)
    nodes = (node for node in nodes if not isinstance(node, ast.FunctionDef | ast.ClassDef))
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def may_be_compiled(file, line):
    """Whether a change of this line may reach a compiled function: it is in one, or in what an import computes."""
    node = around(file, line)
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name in run_by_import():
        return True
    return any(getattr(getattr(each, "func", None), "id", None) == "njit" for each in node.decorator_list)


class Change(NamedTuple):
    """One replacement: ``text`` for what stands in ``file`` from ``start`` to ``end``."""

    file: str
    operator: str
    number: int
    line: int
    column: int
    start: int
    end: int
    text: str

    @property
    def key(self):
        return checksum([self.file, content(self.file), self.operator, self.number])

    @property
    def source(self):
        source = parsed(self.file)[0]
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self):
        source = parsed(self.file)[0]
        first, last = source.rfind("\n", 0, self.start) + 1, source.find("\n", self.end)
        shown = f"-{source[first:last]}", f"+{source[first : self.start]}{self.text}{source[self.end : last]}"
        return "\n  ".join([f"{self.file}:{self.line} {self.operator.removeprefix('core/')}", *shown])


def changes(folder, files, python):
    """All changes of some files, but numbers down by one, and what is no part of a result.

    That is annotations, which are text; whether Numba keeps what it compiled; whether ``zip`` counts its lists.
    """
    for file in files:
        source, tree = parsed(file)
        kept = folder / f"changes-{checksum([source, OPERATORS])}.jsonl"
        if not kept.exists():
            command = [python, "-c", LIST, *OPERATORS]
            kept.write_text(subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout)
        notes = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
        notes = [((each.lineno, each.col_offset), (each.end_lineno, each.end_col_offset)) for each in notes if each]
        for line in kept.read_text().splitlines():
            change = Change(file, *json.loads(line))
            down = change.operator == "core/NumberReplacer" and change.number % 2  # each number up, then down
            aside = source[: change.start].endswith(("cache=", "strict="))
            if not down and not aside and not any(start <= (change.line, change.column) < end for start, end in notes):
                yield change
