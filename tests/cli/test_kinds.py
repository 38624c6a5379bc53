import pytest

from exfam.cli import kinds

FINE = [
    (kinds.text, "a b", "a b"),
    (kinds.column, "stars", "stars"),
    (kinds.column, 7, "7"),
    (kinds.column, "NULL", None),
    (kinds.column, None, None),
    (kinds.columns, "stars", "stars"),
    (kinds.columns, "[stars, 2024, price]", ["stars", "2024", "price"]),
    (kinds.columns, "[stars]", "stars"),
    (kinds.columns, ["a", 1], ["a", "1"]),
    (kinds.columns, None, None),
    (kinds.labels, "anna", ["anna"]),
    (kinds.labels, "[anna, 7]", ["anna", "7"]),
    (kinds.flag, True, True),
    (kinds.flag, "No", False),
    (kinds.whole, "12", 12),
    (kinds.whole, -3, -3),
    (kinds.number, "5e-3", 0.005),
    (kinds.number, 2, 2.0),
    (kinds.number_list, "[0.1, 1]", [0.1, 1.0]),
    (kinds.number_list, "0.5", [0.5]),
    (kinds.one_of(["csv"]), "csv", "csv"),
    (kinds.anything, "{a: [1, b]}", {"a": [1, "b"]}),
    (kinds.anything, "ordinal(n=5, start=1)", "ordinal(n=5, start=1)"),
    (kinds.optional(kinds.number), "null", None),
    (kinds.optional(kinds.number), "2", 2.0),
    (kinds.or_auto(kinds.number), "5e-3", 0.005),
    (kinds.or_auto(kinds.flag), "auto", "auto"),
    (kinds.by_column, "{7: [no, On, true]}", {"7": ["no", "On", True]}),
    (kinds.by_column, {"km": "count"}, {"km": "count"}),
    (kinds.by_column, None, None),
    (kinds.text_by_column, "%d/%m/%Y", "%d/%m/%Y"),
    (kinds.text_by_column, "{when: '%d/%m/%Y'}", {"when": "%d/%m/%Y"}),
    (kinds.text_by_column, "null", None),
]
WRONG = [
    (kinds.text, "", "must be a text"),
    (kinds.text, 3, "must be a text"),
    (kinds.text, "a\0b", "must be a text"),
    (kinds.column, "", "must be the name of a column"),
    (kinds.column, [], "must be the name of a column"),
    (kinds.column, True, "must be the name of a column"),
    (kinds.columns, "[[a]]", "must be the name of a column, or a list of names"),
    (kinds.columns, {"a": 1}, "must be the name of a column"),
    (kinds.columns, "[unclosed", "must be a name or a list in brackets"),
    (kinds.columns, "[a: {", "must be a name or a list in brackets"),
    (kinds.labels, "[{a: 1}]", "must be a label, or a list of labels"),
    (kinds.flag, "maybe", "must be true or false"),
    (kinds.flag, 1, "must be true or false"),
    (kinds.whole, "2.0", "must be a whole number"),
    (kinds.whole, True, "must be a whole number"),
    (kinds.whole, 2.0, "must be a whole number"),
    (kinds.whole, 2**63, "must be a whole number of 64 bits"),
    (kinds.number, "nan", "must be a finite number"),
    (kinds.number, "inf", "must be a finite number"),
    (kinds.number, 10**400, "must be a finite number"),
    (kinds.number, "five", "must be a finite number"),
    (kinds.number, None, "must be a finite number"),
    (kinds.number, True, "must be a finite number"),
    (kinds.number_list, "[0.1, b]", "must be a finite number"),
    (kinds.one_of(["csv", "json"]), "xml", "must be one of csv, json"),
    (kinds.anything, "{a: [", "must be a word or YAML"),
    (kinds.or_auto(kinds.whole), "many", "must be a whole number or auto"),
    (kinds.by_column, "count", "must be written as {COLUMN: …}"),
    (kinds.by_column, "{a: [", "must be written as {COLUMN: …}"),
    (kinds.text_by_column, "", "must be a text"),
    (kinds.text_by_column, "{when: %d}", 'must be a text, or written as {COLUMN: "TEXT"}'),
    (kinds.text_by_column, 3, 'must be a text, or written as {COLUMN: "TEXT"}'),
    (kinds.anything, "[" * 1500, "must be a word or YAML"),
]


def shown(case):
    return f"{getattr(case[0], '__name__', case[0])}-{str(case[1])[:30]}"


@pytest.mark.parametrize("case", FINE, ids=shown)
def test_a_kind_takes_words_and_what_it_gave(case):
    kind, given, wanted = case
    once = kind(given)
    assert once == wanted and type(once) is type(wanted)
    assert kind(once) == wanted


@pytest.mark.parametrize("case", WRONG, ids=shown)
def test_a_kind_shows_its_rule(case):
    kind, given, rule = case
    with pytest.raises(ValueError, match=rule):
        kind(given)
