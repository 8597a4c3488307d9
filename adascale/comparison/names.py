"""Methods by the names of their policies, with the parameters of these."""

from inspect import Parameter, signature

from adascale import registry
from adascale.comparison.methods import Arguments, Method, as_method
from adascale.policies import Policy


def find_method(name: str) -> tuple[str, Method]:
    """Find a method by name, and return its label and the method.

    For names see :func:`adascale.registry.find`; arguments may follow, as in ``learn:budget_mode=hard``.
    """
    registered, options = registry.parse_options(name)
    policy = registry.find("policies", registered)
    if options and not isinstance(policy.value, type):
        raise ValueError(f"policy {registered!r} takes no parameters, got {name!r}")
    label = policy.label + name[len(registered) :]
    if isinstance(policy.value, type):
        _check_arguments(policy.label, policy.value, options)
    return label, as_method(policy.value, **options)


def _check_arguments(label: str, policy: type[Policy], options: Arguments) -> None:
    """Refuse parameters that neither a class nor a class method that builds it has, and the lack of one needed."""
    own = signature(policy).parameters
    builders = [getattr(policy, name, policy) for name in ("from_law", "of_total")]
    accepted = {**own}
    for builder in builders:
        accepted |= signature(builder).parameters
    if any(item.kind is Parameter.VAR_KEYWORD for item in accepted.values()):
        return  # with **options, the class checks them itself
    for name in options.keys() - accepted.keys():
        listed = ", ".join(key for key in own if key not in ("mean_gain", "law"))
        raise ValueError(
            f"policy {label} has no parameter {name!r}; it has {listed or 'none'}"
        )
    provided = {*policy.tuned, "mean_gain", "law", "epsilon", *options}
    for name, parameter in own.items():
        if parameter.default is Parameter.empty and name not in provided:
            raise ValueError(f"policy {label} needs {name}, as in {label}:{name}=VALUE")
