"""The public names of the package, and those that the pages of book/api ask Sphinx for: both read, nothing imported.

A name stands for where it is defined: ``adascale.policies.Learn`` is that of ``adascale.policies.learn``.
"""

import ast
import re
from collections import Counter, namedtuple
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "book" / "api").glob("*.md"))
NO_LIBRARY = ("adascale.cli", "adascale.__main__", "companion.__main__")  # the command line has --help
INSIDE = tuple(f"adascale.{name}" for name in ("checks", "compiled", "files", "rootfind", "tables"))
"""What only the package itself calls. Of the companion, the pages show the modules that the paper map names."""


Home = namedtuple("Home", "module name")  # a name where it is defined
Directive = namedtuple("Directive", "kind target options")  # an autodoc directive


@cache
def modules():
    """The modules of the library, each with its file."""
    paths = [path for name in ("adascale", "companion") for path in sorted((ROOT / name).rglob("*.py"))]
    paths = {path.relative_to(ROOT).with_suffix("").parts: path for path in paths}
    found = {".".join(parts).removesuffix(".__init__"): path for parts, path in paths.items() if "tests" not in parts}
    return {module: path for module, path in found.items() if not module.startswith(NO_LIBRARY)}


@cache
def tree(module):
    return ast.parse(modules()[module].read_text())


def listed(module):
    """``__all__``, or None where the module has none."""
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


@cache
def imports(module):
    """The names that a module imports from others, each with its module and its name there."""
    nodes = [node for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (node.module, alias.name) for node in nodes for alias in node.names}


def home(module, name):
    """Where a name of a module is defined; None for a module, and for what another package defines."""
    source, original = imports(module).get(name, (None, None))
    if source is None:
        return Home(module, name)
    if f"{source}.{original}" in modules() or source not in modules():
        return None
    return home(source, original)


def described(module):
    """What autodoc takes from a module: functions and classes with a docstring, constants with words below."""
    names, body = [], tree(module).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if ast.get_docstring(node) and not compiled(node):
                names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            (target,) = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(target, ast.Name):
                names.append(target.id)
    return [name for name in names if not name.startswith("_")]


def compiled(node):
    """Whether numba makes of the function what is no function to autodoc: a kernel, called by the others."""
    return any("njit" in ast.dump(decorator) for decorator in node.decorator_list)


def directives():
    """What the pages ask for, in their order."""
    text = "\n".join(page.read_text() for page in PAGES)
    found = re.findall(r"^\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", text, re.MULTILINE)
    for kind, target, options in found:
        yield Directive(kind, target, dict(re.findall(r"^   :([\w-]+): ?(.*)$", options, re.MULTILINE)))


def documented():
    """Every name that stands on the pages, as often as it does, by where it is defined."""
    found = Counter()
    for kind, target, options in directives():
        if kind != "module":
            found[home(*target.rpartition(".")[::2])] += 1
        elif "members" in options:
            chosen = [name for name in options["members"].split(", ") if name] or listed(target) or described(target)
            left_out = options.get("exclude-members", "").split(", ")
            homes = [home(target, name) for name in chosen if name not in left_out]
            found.update(each for each in homes if each and each.name in described(each.module))
    return found


def faces():
    """The packages of which the pages show what they export; their modules are the inside."""
    shown = {each.target for each in directives() if each.kind == "module" and "members" in each.options}
    return {module for module in shown if modules()[module].name == "__init__.py"}


def is_inside(module):
    """Whether no page has to show a module: see :data:`INSIDE`."""
    shown = {each.target for each in directives() if each.kind == "module"}
    return module in INSIDE or (module.startswith("companion") and module not in shown)


def public():
    """Every public name: what a package or module lists, and what a module without a list defines."""
    found, shown = set(), faces()
    for module in modules():
        if is_inside(module) or any(module.startswith(f"{face}.") for face in shown):
            continue
        names = listed(module)
        if names is None:
            body = [node for node in tree(module).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            names = [node.name for node in body if not compiled(node) and node.name not in ("main", "committed")]
        homes = [home(module, name) for name in names if not name.startswith("_")]
        found |= {each for each in homes if each and f"{each.module}.{each.name}" not in modules()}
    return found
