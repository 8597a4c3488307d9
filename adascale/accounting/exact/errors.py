"""Why a schedule is refused."""


class CannotCertify(ArithmeticError):
    """The bracket of an epsilon or a delta is wider than one per cent, or its moments are beyond floating point."""


class RoundingFloor(CannotCertify):
    """What double precision may be off is no longer small beside delta."""
