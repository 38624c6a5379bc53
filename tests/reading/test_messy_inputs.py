"""Files and frames as they come: each is right, or refused in one sentence with the remedy."""

import re

import pytest

from reading.messy_cases import CASES
from reading.messy_writers import judged


def test_there_are_many_cases_of_each_kind():
    assert len(CASES) >= 75 and len({case.name for case in CASES}) == len(CASES)
    assert sum(bool(case.refused) for case in CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_messy_input_is_right_or_refused_with_the_remedy(case, tmp_path):
    word, message, lines = judged(case, tmp_path)
    assert word == ("refused" if case.refused else "right"), message or lines
    assert "\n" not in message.replace(str(tmp_path), "")
    assert case.said or case.refused or not lines, lines
    if case.refused and (files := [path for path in tmp_path.iterdir() if path.is_file()]):
        no_file = re.match("`(encoding|duplicates)`", message)
        assert files[0].name in message or no_file, message
