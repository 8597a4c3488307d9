"""One thread for PyTorch, as for the tests of learning."""

from ..learning.conftest import one_thread as one_thread
