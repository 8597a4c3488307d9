"""The exceptions: one base, the built-in types that callers catch, and what each carries."""

import pickle

import pytest

from adascale import accounting, errors
from adascale.tables import read_table

BUILT_IN = {
    "InvalidInput": ValueError,
    "InvalidFile": ValueError,
    "BudgetNotReached": RuntimeError,
    "CannotCertify": ArithmeticError,
    "RoundingFloor": ArithmeticError,
    "Diverged": RuntimeError,
    "Busy": Exception,
}


def test_every_exception_has_the_base_and_its_built_in_type():
    found = {name for name, each in vars(errors).items() if isinstance(each, type)} - {"AdaScaleError"}
    assert found == BUILT_IN.keys()
    for name, built_in in BUILT_IN.items():
        assert issubclass(getattr(errors, name), errors.AdaScaleError)
        assert issubclass(getattr(errors, name), built_in)


def test_errors_carry_their_argument_or_file_also_after_pickling():
    with pytest.raises(errors.InvalidInput) as caught:
        accounting.rdp(0.1, -1.0, 3)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.argument == caught.value.argument == "noise_multiplier"
    assert str(copy) == str(caught.value)
    with pytest.raises(errors.InvalidFile) as caught:
        read_table(b"a\n1\n1,5\n", "table.csv", lambda names: (names, float))
    assert (caught.value.path, caught.value.line) == ("table.csv", 3)
