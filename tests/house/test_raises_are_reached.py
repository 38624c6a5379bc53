"""What is told of raise statements that no test reaches; `--check-raises` looks at a whole run."""

import ast

from coverage import CoverageData

from house.raises import all_unreached, unreached
from house.sources import FILES


def test_a_raise_that_was_not_reached_is_found():
    tree = ast.parse(
        "def f(x):\n    if x:\n        raise E(\n            x\n        )\n    raise F"
    )
    assert unreached(tree, {1, 2, 3}) == [6]
    assert unreached(tree, {1, 2, 6}) == [3]
    assert unreached(tree, {1, 2, 4, 6}) == []


def test_all_files_are_looked_at():
    data = CoverageData(no_disk=True)
    none = all_unreached(data)
    data.add_lines({str(path): range(1, 500) for path in FILES})
    assert len(none) > 500 and not all_unreached(data)
