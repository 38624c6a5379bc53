"""Sentences cut out of WikiText."""

import pytest

from exfam_studies.positions.wikitext import wikitext_sentences


def sentences(*lines, least=2, most=28):
    return [
        " ".join(words)
        for words in wikitext_sentences(map(str.split, lines), least=least, most=most)
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Cats sleep . Do dogs ? They do !", ["Cats sleep .", "Do dogs ?", "They do !"]),
        ("= = Cats sleep . = =", []),
        ("", []),
        ("Cats sleep", []),
        ("cats sleep . Dogs bark .", ["Dogs bark ."]),
        ("5 cats sleep .", ["5 cats sleep ."]),
        ("Cats <unk> . Dogs bark .", ["Dogs bark ."]),
        ("Cats <unk> @-@ like .", []),
        ("Some 1 @,@ 234 @.@ 5 cats .", ["Some 1,234.5 cats ."]),
        ("A cat @-@ like @-@ dog .", ["A cat-like-dog ."]),
        ("It ( a cat sleeps .", []),
        ("It ( a cat ) sleeps .", ["It ( a cat ) sleeps ."]),
        ('He said " Cats sleep . " They do .', ['He said " Cats sleep . "', "They do ."]),
        ('" Cats " sleep . Dogs bark .', ['" Cats " sleep .', "Dogs bark ."]),
        ('Cats " sleep . Dogs bark .', ["Dogs bark ."]),
        ("H. americanus sleeps .", ["H. americanus sleeps ."]),
    ],
)
def test_whole_sentences_are_cut_out(line, found):
    assert sentences(line) == found


def test_sentences_have_as_many_words_as_asked_for():
    lines = [" ".join(["A", *"b" * n, "."]) for n in range(1, 9)]
    result = [len(each.split()) for each in sentences(*lines, least=4, most=7)]
    assert result == [4, 5, 6, 7]
    # What is joined counts as one word.
    assert sentences("A b @-@ c .", least=3, most=3) == ["A b-c ."]
