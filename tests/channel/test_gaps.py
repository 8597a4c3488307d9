"""Gaps of measured gains: how many may be filled, and numbers that stand for none."""

import pandas as pd
import pytest

from adascale.channel import Reading
from adascale.errors import InvalidFile

from .traces import (
    FAR,
    NAMES,
    SITE,
    aligned,
    by_line,
    read,
    saved,
    wide_form,
)

WHERE = [(t, m) for t in range(1, 59) for m in range(4)]
# more than 10 % of all; a quarter of one link's, 6 % of all; 5 % of all, but 25 % of the last twelve rounds
TOO_MANY = {
    "all": (WHERE[::9], None, "0.1"),
    "one link": ([(t, 2) for t in range(1, 58, 4)], None, "0.25"),
    "one part": ([(t, 1 + t % 2) for t in range(48, 60)], 0.8, "0.25"),
}
CONTENTS = {
    "table": lambda value: wide_form(value, range(60), "round"),
    "array": lambda value: saved(value.T),
}


@pytest.mark.parametrize("form", CONTENTS)
@pytest.mark.parametrize("name", TOO_MANY)
def test_gaps_above_the_share_are_refused_unless_it_is_named(tmp_path, form, name):
    lost, split, share = TOO_MANY[name]
    content = CONTENTS[form](aligned(lost=lost))
    expected = rf"{share}.* missing, more than .*max_gaps = 0\.1"
    with pytest.raises(InvalidFile, match=expected):
        read(tmp_path, content, SITE, unit=Reading(**FAR, gaps="hold"), split=split)
    how = Reading(**FAR, gaps="hold", max_gaps=0.3)
    notes = read(tmp_path, content, SITE, unit=how, split=split).notes
    assert f"{len(lost)} of 240 values are missing" in notes[0]


@pytest.mark.parametrize(
    ("links", "max_gaps", "good"),
    # 24 of all 240 values, and none too many
    [([0, 1, 2], 0.1, 9), ([2], 0.5, 60)],
)
def test_gaps_of_lines_are_counted_over_the_rounds_of_the_scenario(
    links, max_gaps, good
):
    lost = [(t, m) for t in range(1, 60) for m in links]
    table = pd.DataFrame(aligned(lost=lost), columns=NAMES).to_csv(index=False)
    how = Reading(**FAR, gaps="hold", max_gaps=max_gaps)
    lines, _, refused = by_line(table, SITE, unit=how)
    assert (len(lines), refused) == (good, [*range(good + 2, 62)])
