"""Texts as codes of tokens."""

import bz2
import gzip

import numpy as np
import pytest

from exfam.checks import DataError, UnknownItemError
from exfam.language.networks.lstm_network import cut
from exfam.language.tokens import encode_known, encode_text, learn

TEXT = " the cat \n\nthe dog sees\tthe cat\n"
LINES = ["the cat", [], ["the", "dog", "sees", "the", "cat"]]
TOKENS = ["the", "cat", "<eos>", "<eos>", "the", "dog", "sees", "the", "cat", "<eos>"]


def words(lexicon, codes):
    return lexicon.labels[codes].tolist()


def test_files_of_any_kind_and_lines_are_the_same_text(tmp_path):
    content = TEXT.encode()
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.bz2").write_bytes(bz2.compress(content))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    (tmp_path / "dos.txt").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    for source in (*sorted(tmp_path.iterdir()), LINES, iter(LINES)):
        lexicon, codes = learn(source, name="train")
        assert words(lexicon, codes) == TOKENS
        # By falling count, ties by name.
        assert lexicon.labels.tolist() == ["<eos>", "the", "cat", "dog", "sees"]
    assert words(lexicon, encode_text(str(tmp_path / "a.txt"), lexicon, name="X")) == TOKENS


def test_arrays_of_codes_keep_them():
    lexicon, codes = learn(np.array([2, 0, -1, 1], dtype=np.int32), name="train")
    assert lexicon.labels.tolist() == [0, 1, 2, "<eos>"] and codes.tolist() == [2, 0, 3, 1]
    assert encode_text(np.array([-1, 2]), lexicon, name="X").tolist() == [3, 2]
    with pytest.raises(UnknownItemError, match="codes below 4, .* got 4 at token 1"):
        encode_text(np.array([0, 4]), lexicon, name="X")


def test_words_never_seen_are_unknown_or_left_out_and_counted_or_refused(tmp_path):
    lexicon, _ = learn(["the <unk> sees"], name="train")
    codes, n_unknown = encode_known(["a <unk> sees"], lexicon, name="X")
    assert words(lexicon, codes) == ["<unk>", "<unk>", "sees", "<eos>"] and n_unknown == 0
    lexicon, _ = learn(["the cat"], name="train")
    codes, n_unknown = encode_known(["the fox sees", "cat"], lexicon, name="X")
    assert words(lexicon, codes) == ["the", "<eos>", "cat", "<eos>"] and n_unknown == 2
    with pytest.raises(DataError, match="`X` must hold words of the training text, got none"):
        encode_known(["a fox"], lexicon, name="X")
    path = tmp_path / "new.txt"
    path.write_text("the cat\nthe fox\n")
    message = "`X` must have words of the training text alone.* got 'fox' in line 2"
    for source, where in ((path, " of .*new.txt"), (["the cat", "the fox"], "")):
        with pytest.raises(UnknownItemError, match=f"{message}{where}. Write <unk>"):
            encode_text(source, lexicon, name="X")


@pytest.mark.parametrize(
    ("content", "file", "message"),
    [
        (b"the cat\na\0b\n", "a.txt", "got a byte 0, so a binary file at line 2 of .*a.txt"),
        (b"caf\xe9\n", "a.txt", "UTF-8, got other bytes .* at line 1 of"),
        (bz2.compress(b"the cat\n")[:-9], "a.bz2", "got a damaged or unreadable file .*a.bz2"),
        (b"\n \n", "a.txt", "`train` must be a text with words, got 2 line ends alone"),
    ],
)
def test_what_is_no_text_is_refused_with_file_and_line(tmp_path, content, file, message):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError, match=message):
        learn(tmp_path / file, name="train")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([1, 2], "Line 1 must be a text or a list of words, got int. Give codes as a NumPy"),
        (np.zeros(2), "must be a flat array of integers, got .* of float64"),
        (np.array([0, -2]), "must hold integers >= 0, or -1 for line ends, got -2 at token 1"),
    ],
)
def test_other_sources_are_refused(source, message):
    with pytest.raises(DataError, match=message):
        learn(source, name="train")


@pytest.mark.parametrize("n_tokens", [7, 8, 20])
@pytest.mark.parametrize("n_columns", [1, 4, 7])
def test_pieces_are_the_text_each_token_after_the_one_before_it(n_tokens, n_columns):
    tokens = np.random.default_rng(0).integers(0, 50, n_tokens)
    whole = cut(tokens, n_columns, start=99, whole=True)
    targets, inputs = (part.T.flatten().numpy() for part in (whole.targets, whole.inputs))
    present = targets >= 0
    assert targets[present].tolist() == tokens.tolist()
    assert inputs[present].tolist() == [99, *tokens[:-1]]
    part = cut(tokens, n_columns, start=99, whole=False)
    length = n_tokens // n_columns * n_columns
    assert part.targets.T.flatten().tolist() == tokens[:length].tolist()
    assert part.inputs.T.flatten().tolist() == [99, *tokens][:length]
