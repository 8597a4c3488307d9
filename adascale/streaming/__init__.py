"""Online policies in service, one round at a time, with a state file that survives a killed process."""

from adascale.streaming.epsilon import Moments, RunningEpsilon
from adascale.streaming.journal import Journal
from adascale.streaming.stream import Answer, Stream

__all__ = ["Answer", "Journal", "Moments", "RunningEpsilon", "Stream"]
