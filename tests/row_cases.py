"""Rows of studies, picked by what they say."""


def find(rows, **wanted):
    """The rows with these fields or settings."""

    def has(row, name, value):
        return getattr(row, name, None) == value or row.settings.get(name) == value

    return [row for row in rows if all(has(row, *pair) for pair in wanted.items())]


def value(rows, **wanted):
    (row,) = find(rows, **wanted)
    return row.value
