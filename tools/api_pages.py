"""A Sphinx extension: what the API page would lack.

viewcode finds the lines of properties too, which carry no ``__module__``; a package shows the constants that it exports
with the words that are under them where they are defined; and fields of named tuples lose "Alias for field number 0".
"""

import ast
import importlib
import pkgutil
from functools import cached_property
from inspect import getattr_static, isclass

from sphinx.pycode import ModuleAnalyzer

import adascale
import companion


def module_of_property(app, module, name):
    """Where the property ``name`` = ``Class.property`` is defined; None for anything else, which viewcode knows."""
    owner, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), owner, None) if owner else None
    found = getattr_static(found, last, None) if isinstance(found, type) else None
    if isinstance(found, property):
        return found.fget.__module__
    return found.func.__module__ if isinstance(found, cached_property) else None


def adopt_constants(app):
    """The comments of a package's constants, from the modules that it imports them from."""
    for package in [each for root in (adascale, companion) for each in walk(root)]:
        if package.ispkg:
            own = analysed(package.name)
            for node in ast.parse(own.code).body:
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                    f"{package.name}."
                ):
                    found = analysed(node.module).attr_docs
                    keys = [("", alias.name) for alias in node.names]
                    own.attr_docs.update(
                        (key, found[key]) for key in keys if key in found
                    )


def without_aliases(app):
    """Clear the words that say nothing: fields that have no others are left out then."""
    for module in [
        importlib.import_module(each.name)
        for each in walk(adascale)
        if not each.name.endswith("__main__")
    ]:
        for cls in filter(isclass, vars(module).values()):
            for field in (vars(cls).get(name) for name in getattr(cls, "_fields", ())):
                if (getattr(field, "__doc__", None) or "").startswith(
                    "Alias for field number"
                ):
                    field.__doc__ = ""


def walk(root):
    """The modules of the library or the companion, without tests."""
    found = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
    return [each for each in found if not each.name.startswith("companion.tests")]


def analysed(module):
    """What Sphinx knows of a module; it is asked for again by autodoc, which is given the same one."""
    analyzer = ModuleAnalyzer.for_module(module)
    analyzer.analyze()
    return analyzer


def setup(app):
    app.setup_extension("sphinx.ext.viewcode")
    app.connect("viewcode-follow-imported", module_of_property)
    app.connect("builder-inited", adopt_constants)
    app.connect("builder-inited", without_aliases)
    return {"parallel_read_safe": True}
