"""What chapters tell: each module turns results into the texts that a chapter glues into its sentences.

What the book concludes from the numbers stands in ``tests/paper/told/``, for the committed tables: who computes other
tables gets other numbers, and no failed check.
"""
