"""A Sphinx extension: what the API pages would lack.

A package shows the constants that it exports with the words that are under them where they are defined; fields of named
tuples without words are left out.
"""

import ast
import importlib
import pkgutil
import re

from sphinx.pycode import ModuleAnalyzer

import adascale
import companion


def modules():
    """Yield the modules of the library and the companion, but for tests and what runs when it is imported."""
    for root in (adascale, companion):
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if not re.search(r"\.(tests|__main__)\b", module.name):
                yield module


def adopt_constants(app):
    """Give each package the comments of the constants that it imports from its modules."""
    for package in [module.name for module in modules() if module.ispkg]:
        comments = analysed(package)
        for node in ast.parse(comments.code).body:
            module = getattr(node, "module", None) or ""
            if module.startswith(f"{package}."):
                defined = analysed(module).attr_docs
                keys = {("", alias.name) for alias in node.names} & {*defined}
                comments.attr_docs.update((key, defined[key]) for key in keys)


def analysed(module):
    """Return what Sphinx knows of a module; autodoc asks for it again, and is given the same one."""
    analyzer = ModuleAnalyzer.for_module(module)
    analyzer.analyze()
    return analyzer


def clear_aliases(app):
    """Clear the words of fields of named tuples that say nothing: those that have no others are left out then."""
    for module in modules():
        for cls in vars(importlib.import_module(module.name)).values():
            for name in getattr(cls, "_fields", ()):
                field = getattr(cls, name, None)
                if (getattr(field, "__doc__", None) or "").startswith("Alias for"):
                    field.__doc__ = ""


def setup(app):
    app.setup_extension("sphinx.ext.viewcode")
    app.connect("builder-inited", adopt_constants)
    app.connect("builder-inited", clear_aliases)
    return {"parallel_read_safe": True}
