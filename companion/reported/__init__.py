"""The texts that chapters glue into their sentences, one module per chapter or topic.

What the book concludes from the numbers stands in ``companion/tests/reported/``, for the committed tables:
other tables give other numbers, and no failed check.
"""
