import pytest

from exfam.cli import kinds

FINE = [
    (kinds.text, "a b", "a b"),
    (kinds.column, 7, "7"),
    (kinds.column, "NULL", None),
    (kinds.columns, "[stars, 2024, price]", ["stars", "2024", "price"]),
    (kinds.columns, None, None),
    (kinds.labels, "[anna, 7]", ["anna", "7"]),
    (kinds.flag, "No", False),
    (kinds.whole, "12", 12),
    (kinds.number, "5e-3", 0.005),
    (kinds.number_list, "[0.1, 1]", [0.1, 1.0]),
    (kinds.one_of(["csv"]), "csv", "csv"),
    (kinds.anything, "{a: [1, b]}", {"a": [1, "b"]}),
    (kinds.optional(kinds.number), "null", None),
    (kinds.or_auto(kinds.number), "5e-3", 0.005),
    (kinds.or_auto(kinds.flag), "auto", "auto"),
    (kinds.by_column, "{7: [no, On, true]}", {"7": ["no", "On", True]}),
    (kinds.by_column, None, None),
    (kinds.text_by_column, "%d/%m/%Y", "%d/%m/%Y"),
    (kinds.text_by_column, "{when: '%d/%m/%Y'}", {"when": "%d/%m/%Y"}),
    (kinds.text_by_column, "null", None),
]
WRONG = [
    (kinds.text, "", "must be a text"),
    (kinds.column, True, "must be the name of a column"),
    (kinds.columns, "[[a]]", "must be the name of a column, or a list of names"),
    (kinds.columns, "[unclosed", "must be a name or a list in brackets"),
    (kinds.labels, "[{a: 1}]", "must be a label, or a list of labels"),
    (kinds.flag, "maybe", "must be true or false"),
    (kinds.whole, "2.0", "must be a whole number"),
    (kinds.whole, True, "must be a whole number"),
    (kinds.whole, 2**63, "must be a whole number of 64 bits"),
    (kinds.number, "nan", "must be a finite number"),
    (kinds.number, 10**400, "must be a finite number"),
    (kinds.number, True, "must be a finite number"),
    (kinds.one_of(["csv", "json"]), "xml", "must be one of csv, json"),
    (kinds.anything, "[" * 1500, "must be a word or YAML"),
    (kinds.or_auto(kinds.whole), "many", "must be a whole number or auto"),
    (kinds.by_column, "count", "must be written as {COLUMN: …}"),
    (kinds.text_by_column, "{when: %d}", 'must be a text, or written as {COLUMN: "TEXT"}'),
]


@pytest.mark.parametrize(("kind", "given", "wanted"), FINE)
def test_a_kind_takes_words_and_what_it_gave(kind, given, wanted):
    value = kind(given)
    assert value == wanted == kind(value) and type(value) is type(wanted)


@pytest.mark.parametrize(("kind", "given", "rule"), WRONG)
def test_a_kind_shows_its_rule(kind, given, rule):
    with pytest.raises(ValueError, match=rule):
        kind(given)
