"""Dumps of Wikipedia: what of them is text."""

import bz2

import pytest

from exfam.checks import DataError
from exfam.reading.text import dump_lines, is_dump, prepare_text

HEAD = '<mediawiki xml:lang="en">\n<page>\n<title>Not this</title>\n<text xml:space="preserve">'
DUMP = f"""{HEAD}'''Anarchism''' is a [[political philosophy|philosophy]] of 1 [[state]].
See [http://example.org/a?b the site]&amp;nbsp;now.&lt;ref name="x"&gt;A book&lt;/ref&gt;
&lt;br&gt;{{{{icon|en}}}}{{| table |}}

[[Image:Cat.jpg|thumb|left|200px|A cat]] [[de:Katze]]
[[Category:Cats|*]]</text>
</page>
<page><title>Nor this</title>
<text xml:space="preserve">#REDIRECT [[Cat]]
nothing of it</text>
<text xml:space="preserve">
The end</text>
</page>
"""
LINES = [
    "'''Anarchism''' is a philosophy of 1 state.",
    "See  the site now.",
    "A cat",
    "Cats",
    "The end",
]
WORDS = "anarchism is a philosophy of one state see the site now a cat cats the end"


def test_what_can_be_seen_is_left(tmp_path):
    path, packed = tmp_path / "enwiki.xml", tmp_path / "enwiki.xml.bz2"
    path.write_text(DUMP)
    packed.write_bytes(bz2.compress(DUMP.encode()))
    assert list(dump_lines(path)) == LINES == list(dump_lines(packed))
    text = prepare_text(dump_lines(path), min_count=1, sentences="none", cleaning="wikifil")
    words = [text.vocabulary.words[code] for code in text.tokens if code >= 0]
    assert " ".join(words) == WORDS and (text.tokens < 0).sum() == 1


def test_other_text_is_no_dump(tmp_path):
    path = tmp_path / "text8"
    path.write_text("anarchism originated as")
    assert not is_dump(path)
    with pytest.raises(DataError, match=f"which begins with <mediawiki, got {path}"):
        dump_lines(path)
    with pytest.raises(DataError, match="`path` must be a file, got no such file"):
        dump_lines(tmp_path / "nothing")
