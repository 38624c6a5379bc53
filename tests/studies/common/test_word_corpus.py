"""The text that experiments of word vectors are fitted to."""

import pytest

from exfam_studies.common.harness import Options
from exfam_studies.common.word_corpus import read_corpus

DUMP = """<mediawiki xml:lang="en">
<page>
<title>Not this</title>
<text xml:space="preserve">'''Anarchism''' is a [[political philosophy|philosophy]].
The end</text>
</page>
"""


@pytest.mark.parametrize("fast", [False, True])
def test_experiments_take_dumps(tmp_path, fast):
    dump = tmp_path / "enwiki.xml"
    dump.write_text(DUMP)
    options = Options(corpus=dump, folder=tmp_path / "kept", fast=fast)
    first, again = (read_corpus(options, min_count=1) for _ in range(2))
    words = [first.vocabulary.words[code] for code in first.tokens if code >= 0]
    assert words == ["anarchism", "is", "a", "philosophy", "the", "end"]
    assert first.tokens.tolist() == again.tokens.tolist()
