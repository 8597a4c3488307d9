"""Online policies that answer one round at a time, with a file to resume from."""

from adascale.streaming.answers import Answer
from adascale.streaming.stream import Stream

__all__ = ["Answer", "Stream"]
