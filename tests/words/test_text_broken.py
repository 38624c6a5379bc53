"""Errors of a text name what is wrong and where."""

import bz2
import errno
import gzip

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.reading.text import Vocabulary, prepare_text
from exfam.reading.text.corpus import Position, SentenceSource
from exfam.reading.text.numbering import Pace
from exfam.reading.text.text_options import TextOptions
from exfam.reading.text.word_table import PIECE
from words.text_cases import LINES, prepared

GOOD = "the cat\nsat on é\n".encode() * 3
LONG = "x" * (PIECE + 1)


class TestFiles:
    @pytest.mark.parametrize("size", [1, 10, 1 << 20])
    @pytest.mark.parametrize("packed", ["txt", "gz", "bz2"])
    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (b"a \xe9t\xe9 b", r"encoded in UTF-8, got byte 0xe9 at byte 56 \(line 7\) of .*bad\."),
            (b"a \xe3\x80", r"encoded in UTF-8, got byte 0xe3 at byte 56 \(line 7\) of .*bad\."),
            (b"a b\0c", r"must be text, got a NUL at byte 57 \(line 7\) of .*bad\..*binary"),
        ],
    )
    def test_bytes_that_are_no_text(self, tmp_path, size, packed, bad, message):
        path = tmp_path / f"bad.{packed}"
        pack = {"gz": gzip.compress, "bz2": bz2.compress, "txt": bytes}[packed]
        path.write_bytes(pack(GOOD + bad))
        assert (len(GOOD), GOOD.count(b"\n")) == (54, 6)
        for source in (path, tmp_path):
            with pytest.raises(DataError, match=message):
                prepared(source, tmp_path / "a" / "b", pace=Pace(piece=size))

    def test_lines_are_counted_from_where_reading_goes_on(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_bytes(GOOD * 100 + b"\xff")

        def interrupt(progress):
            if progress.done > 3000:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            prepared(path, tmp_path / "b", pace=Pace(50, 50, interrupt))
        with pytest.raises(DataError, match=r"0xff at byte 5400 \(line 601\)"):
            prepared(path, tmp_path / "b", pace=Pace(50, 50))

    def test_text_in_utf_16(self, tmp_path):
        (tmp_path / "a.txt").write_text("the cat", encoding="utf-16")
        with pytest.raises(DataError, match="got a NUL at byte 3 .*one in UTF-16"):
            prepare_text(tmp_path / "a.txt")

    @pytest.mark.parametrize("kind", ["gz", "bz2"])
    @pytest.mark.parametrize("damage", ["cut", "changed", "no such file at all"])
    def test_a_packed_file_that_is_not_whole(self, tmp_path, kind, damage):
        path = tmp_path / f"a.{kind}"
        data = {"gz": gzip, "bz2": bz2}[kind].compress(GOOD * 50)
        if damage == "cut":
            data = data[:-9]
        elif damage == "changed":
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
        else:
            data = GOOD
        path.write_bytes(data)
        with pytest.raises(DataError, match=rf"must be of whole files .* got .*a\.{kind}: "):
            prepare_text(path)

    @pytest.mark.parametrize("before", ["", "a b\nc "])
    def test_a_word_without_end(self, tmp_path, before):
        path = tmp_path / "a.txt"
        path.write_text(before + LONG * 2)
        place = rf"byte {len(before)} \(line {before.count(chr(10)) + 1}\)"
        with pytest.raises(DataError, match=f"words of less than {PIECE} bytes, got .*{place}"):
            prepare_text(path)

    def test_a_long_word_that_is_no_longer_than_that(self, tmp_path):
        path, word = tmp_path / "a.txt", "x" * (PIECE - 2)
        path.write_text(f"a {word} b {word}")
        assert prepare_text(path, min_count=1).vocabulary.words == (word, "a", "b")
        lines = [f"a {word}{k} b" for k in range(7)]
        with pytest.warns(UserWarning, match="forgotten"):
            text = prepare_text(lines, min_count=4, max_distinct=9)
        assert text.vocabulary.words == ("a", "b") and text.forgotten == 1

    def test_files_that_cannot_be_read(self, tmp_path, monkeypatch):
        path = tmp_path / "a.txt"
        path.write_bytes(GOOD)
        monkeypatch.setattr("os.access", lambda *_: False)
        with pytest.raises(DataError, match="must be readable, got .*a.txt' without the permissi"):
            prepare_text(path)


class TestNames:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (
                "missing.txt",
                "must name a file, .* got '.*missing.txt', which is not there. Text it",
            ),
            ("*.txt", r"must name a file, a folder or a pattern, got '.*\*.txt', which is not"),
            ("empty", "got '.*empty', a folder without files"),
            ("https://x.org/a.txt", "must be on this machine, got 'https://x.org/a.txt'. Download"),
            ("a\0b", "must name a file"),
        ],
    )
    def test_nothing_there(self, tmp_path, source, message):
        (tmp_path / "empty" / "below").mkdir(parents=True)
        (tmp_path / "empty" / ".hidden").write_text("a b")
        name = source if "://" in source else str(tmp_path / source)
        with pytest.raises(DataError, match=message):
            prepare_text(name)

    def test_an_empty_name_is_not_the_working_directory(self, tmp_path, monkeypatch):
        (tmp_path / "a.txt").write_bytes(GOOD)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(DataError, match="must name a file, .* got an empty name. The working"):
            prepare_text("")

    def test_a_disk_that_fills_up_is_named_with_the_remedy(self, tmp_path, monkeypatch):
        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("exfam.reading.text.prepare.write_tokens", full)
        with pytest.raises(DataError, match="got .*/kept: No space left on device. Free some"):
            prepare_text(["a b a b"], folder=tmp_path / "kept", min_count=1)

    def test_a_name_that_no_folder_can_have_is_refused(self):
        with pytest.raises(ExfamError, match="`folder` must be a path of names of at most"):
            prepare_text(["a b a b"], folder="a" * 300, min_count=1)

    def test_one_of_several_is_missing(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(GOOD)
        for names in ([tmp_path / "a.txt", tmp_path / "b.txt"], [tmp_path / "b.txt"]):
            with pytest.raises(DataError, match="got '.*b.txt', which is not there"):
                prepare_text(names)
        with pytest.raises(DataError, match="got '.*b.txt', which is not there"):
            prepare_text([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])

    def test_paths_among_others(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(GOOD)
        with pytest.raises(DataError, match=r"hold paths alone after a path, got 3 \(int\)"):
            prepare_text([tmp_path / "a.txt", 3])

    def test_a_prepared_text_is_no_source(self, tmp_path):
        prepare_text(LINES, min_count=1, folder=tmp_path / "a")
        with pytest.raises(DataError, match="got a prepared text: '.*a'. Open it: open_text"):
            prepare_text(str(tmp_path / "a"))

    @pytest.mark.parametrize("source", [3, None, b"a b", bytearray(b"a")])
    def test_no_corpus_at_all(self, source):
        with pytest.raises(DataError, match=f"a path, a folder.* got {type(source).__name__}"):
            prepare_text(source)


class TestSentences:
    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (7, "each a text or a list of words, got int at sentence 3"),
            (None, "got NoneType at sentence 3"),
            (b"a b", "got bytes at sentence 3"),
            ({"a", "b"}, "got set at sentence 3"),
            (np.array("a"), "got ndarray at sentence 3"),
            (["a", 4], r"words that are text, got 4 \(int\) in sentence 3"),
            (["a", None, 4], r"words that are text, got None \(NoneType\) in sentence 3"),
            ([["a", "b"]], r"words that are text, got \['a', 'b'\] \(list\) in sentence 3"),
            (["new york", "b"], "without white space that are not empty, got 2 that .* 3 in sent"),
            (["a", ""], "without white space that are not empty, got 2 that read as 1 in sentence"),
            (["a\n"], None),
            (["a", "b\0"], "must hold text, got a NUL in sentence 3"),
            ("a \0", "must hold text, got a NUL in sentence 3"),
            ("a \ud800", r"Unicode text, got '\\ud800' alone, half of a character, in sentence 3"),
            (["\udfff"], r"Unicode text, got '\\udfff' alone, half of a character, in sentence 3"),
            (LONG, f"words of at most {PIECE} bytes, got one of {PIECE + 1} in sentence 3"),
            ([LONG], f"words of at most {PIECE} bytes, got one of {PIECE + 1} in sentence 3"),
        ],
    )
    @pytest.mark.parametrize("others", [LINES[:2], [["the", "cat"], ["é"]]], ids=["text", "lists"])
    def test_the_bad_one_is_named(self, bad, message, others):
        source = [*others, bad, *others]
        if message is None:
            assert prepare_text(source, min_count=1).n_tokens > 6
            return
        for size in (1, 1 << 20):
            with pytest.raises(DataError, match=message):
                list(SentenceSource(iter(source)).pieces(start=Position(), size=size))

    def test_half_a_character_in_a_list_among_texts(self):
        with pytest.raises(DataError, match="in sentence 2"):
            prepare_text(["a", ["b", "\ud800"]])


class TestTooFewWords:
    @pytest.mark.parametrize("source", [[], [""], [" ", "\n\t"], iter(()), [[]]])
    def test_none(self, source):
        with pytest.raises(DataError, match="must have words, got white space alone, or nothing"):
            prepare_text(source)

    def test_an_empty_file(self, tmp_path):
        for name, data in (("a.txt", b""), ("a.gz", gzip.compress(b"")), ("b.txt", b"\n \n")):
            (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match="must have words, got white space alone, or nothing"):
            prepare_text(tmp_path)

    def test_none_after_cleaning(self):
        with pytest.raises(DataError, match="must have words"):
            prepare_text(["日本 é"], cleaning="wikifil")

    def test_none_frequent_enough(self):
        with pytest.raises(
            DataError, match="`min_count` must leave words, got 5, where .*, 'a', was read 3 times"
        ):
            prepare_text(["a b a", "b c a"])

    @pytest.mark.parametrize("options", [{"min_count": 3}, {"min_count": 1, "max_words": 1}])
    def test_one(self, options):
        with pytest.raises(DataError, match="two words or more after .* got 'a' alone: there is"):
            prepare_text(["a b a", "b c a"], **options)

    def test_none_of_a_vocabulary(self):
        known = Vocabulary.counted({"x": 4, "y": 2})
        with pytest.raises(DataError, match="words of the vocabulary, got none of its 2 among 3"):
            prepare_text(["a b a"], vocabulary=known, max_words=2)

    @pytest.mark.parametrize("word", ["new york", "", "a\nb"])
    def test_a_vocabulary_that_no_text_has(self, word):
        known = Vocabulary.counted({"x": 4, word: 2})
        with pytest.raises(DataError, match="`vocabulary` must hold words without white space, go"):
            prepare_text(["a b a"], vocabulary=known)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_count": 0}, "`min_count` must be a whole number >= 1, got 0"),
        ({"max_words": 0}, "`max_words` must be None or a whole number >= 1, got 0"),
        ({"max_words": True}, "`max_words` must be None or a whole number >= 1, got True"),
        ({"max_distinct": -1}, "`max_distinct` must be a whole number >= 1, got -1"),
        ({"sentences": "dots"}, "`sentences` must be one of 'lines', 'none', got 'dots'"),
        ({"cleaning": "html"}, "`cleaning` must be one of None, 'wikifil', got 'html'"),
    ],
)
def test_options_that_cannot_be(options, message):
    chosen = {"min_count": 1, "max_words": None, "sentences": "lines", "lower": False}
    chosen |= {"cleaning": None, "max_distinct": 9, **options}
    with pytest.raises(ExfamError, match=message):
        TextOptions(**chosen).check()
