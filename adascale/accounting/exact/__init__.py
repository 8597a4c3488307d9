"""The exact accountant, with proven bounds (:ref:`app-exact`)."""

from adascale.accounting.exact.epsilon import ExactAccountant as ExactAccountant
from adascale.accounting.exact.epsilon import ExactDelta as ExactDelta
from adascale.accounting.exact.epsilon import ExactEpsilon as ExactEpsilon
from adascale.accounting.exact.epsilon import exact_delta as exact_delta
from adascale.accounting.exact.epsilon import exact_epsilon as exact_epsilon
from adascale.accounting.exact.epsilon import trade_off as trade_off
