"""A policy in service: a round at a time, with a state that a killed process leaves whole."""

from adascale.streaming.epsilon import Moments, RunningEpsilon
from adascale.streaming.journal import Journal
from adascale.streaming.stream import Answer, Stream

__all__ = ["Answer", "Journal", "Moments", "RunningEpsilon", "Stream"]
