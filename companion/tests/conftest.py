"""PyTorch has one thread here, as in the tests of learning."""

from tests.learning.conftest import one_thread as one_thread
