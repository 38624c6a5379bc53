"""Names and texts as SQL writes them."""


def identifier(name: str) -> str:
    """A column or table name as SQL writes it.

    >>> identifier('the "best" ones')
    '"the ""best"" ones"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL writes it.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
