"""Methods by the names of their policies, with the parameters of these."""

from inspect import Parameter, signature

from adascale import registry
from adascale.comparison.methods import Arguments, Method, as_method
from adascale.policies import Policy

_FROM_CHANNEL = ("mean_gain", "law", "epsilon", "delta")
_CONSTRUCTORS = ("from_law", "of_total")


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
    """Refuse parameters that a policy class does not have, and a lack of those that only a name can give."""
    constructors = [policy, *(getattr(policy, name, None) for name in _CONSTRUCTORS)]
    accepted: dict[str, Parameter] = {}
    for constructor in filter(None, constructors[::-1]):
        accepted |= signature(constructor).parameters
    if Parameter.VAR_KEYWORD in {parameter.kind for parameter in accepted.values()}:
        return
    own = signature(policy).parameters
    for name in options.keys() - accepted.keys():
        listed = ", ".join(key for key in own if key not in ("mean_gain", "law"))
        raise ValueError(
            f"policy {label} has no parameter {name!r}; it has {listed or 'none'}"
        )
    supplied = {*policy.tuned, *_FROM_CHANNEL, *options}
    for name, parameter in own.items():
        if name not in supplied and parameter.default is Parameter.empty:
            raise ValueError(f"policy {label} needs {name}, as in {label}:{name}=VALUE")
