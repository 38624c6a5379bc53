"""Public sets of labeled sentences: reviews, opinions, questions and paraphrases."""

import numpy as np

from exfam.checks import check_choice
from exfam.reading.public_sets.published import PublicFiles, read_file
from exfam_studies.positions.files import decoded_lines
from exfam_studies.positions.sentence_sets import (
    SentencePart,
    SentenceTask,
    TsvColumns,
    draw_parts,
    labeled_part,
    tsv_part,
    without,
)

# Sets of one file a label.
_LABELED = {
    "mr": {"negative": "rt-polarity.neg", "positive": "rt-polarity.pos"},
    "subj": {"objective": "plot.tok.gt9.5000", "subjective": "quote.tok.gt9.5000"},
    "mpqa": {"negative": "mpqa.neg", "positive": "mpqa.pos"},
}
# Sets whose train and test parts are given.
_PARTED = {
    "trec": ("TREC.train", "TREC.test"),
    "mrpc": ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"),
}
_MRPC = TsvColumns(("#1 String", "#2 String"), "Quality", labels=("0", "1"))
_MD5 = {
    "rt-polarity.pos": "f0aeedee335c43a42daf278d8e9c0187",
    "rt-polarity.neg": "cedb134aab0d3dfa720b6166ad3b3d79",
    "plot.tok.gt9.5000": "ca59cc217b219e80a4387dc1a6ab0471",
    "quote.tok.gt9.5000": "49926991d43e38c4c2d6a2499b76d812",
    "TREC.train": "073462e3fcefaae31e00edb1f18d2d02",
    "TREC.test": "323a3554401d86e650717e2d2f942589",
    "mpqa.pos": "4f3856bce0301d1b2ece42f72d3b21ae",
    "mpqa.neg": "0b244aa59d107d738bc80fbc09328534",
    "msr_paraphrase_train.txt": "8b9db900a96179c1dac5d5ae03192911",
    "msr_paraphrase_test.txt": "b7e1ed816b22c76d51e0f4bd87768056",
}
SENTENCE_SETS = (*_LABELED, *_PARTED)
SOURCE = PublicFiles(
    "sentences",
    how_to_get="rt-polarity.* and {plot,quote}.tok.gt9.5000 are in the packages sentence_polarity "
    "and subjectivity of https://github.com/nltk/nltk_data; TREC.* and mpqa.* in data/raw of "
    "https://github.com/harvardnlp/sent-conv-torch; msr_paraphrase_*.txt is Microsoft Research's "
    "Paraphrase Corpus: put them into FOLDER/sentences and set EXFAM_DATA=FOLDER.",
    md5={f"sentences/{name}": md5 for name, md5 in _MD5.items()},
)


def sentence_task(name: str, *, seed: int) -> SentenceTask:
    """A public set of labeled sentences; `seed` draws the parts that are not given.

    "mr": reviews of films, negative or positive (10,662)
    "subj": objective plots and subjective reviews of films (10,000)
    "mpqa": phrases of opinion, negative or positive (10,603 and 3 blank lines that are left out)
    "trec": six kinds of questions (5,442 and 500; the 10 that are in both count as test)
    "mrpc": pairs of sentences, paraphrases ("1") or not ("0") (4,076 and 1,725)

    A tenth of the sentences is the validation part, and another the test part where none is given,
    label by label. Copies of a sentence are in one part; of MRPC this holds for pairs, not for the
    sentences within them. Files are looked for in the folder `sentences` of the one that EXFAM_DATA
    names, then in the user's cache. Raises ExfamError for another name; DataError, saying how to
    obtain the file, where it cannot be had or is not the published one.
    """
    check_choice("name", name, SENTENCE_SETS)
    if name in _LABELED:
        files = {label: _content(file) for label, file in _LABELED[name].items()}
        parts = draw_parts(labeled_part(files), fractions=(0.1, 0.1), by_label=True, seed=seed)
        return SentenceTask(name, "classification", "accuracy", *parts)
    given, test = (_given(name, *_content(file)) for file in _PARTED[name])
    train, validation = draw_parts(without(given, test), fractions=(0.1,), by_label=True, seed=seed)
    return SentenceTask(name, "classification", "accuracy", train, validation, test)


def _content(file: str) -> tuple[str, bytes]:
    name = f"sentences/{file}"
    return name, read_file(SOURCE, name)


def _given(name: str, where: str, content: bytes) -> SentencePart:
    """Of TREC's lines "LOC:city What city ..." the coarse of the two labels, and the question."""
    if name == "mrpc":
        return tsv_part(content, columns=_MRPC, where=where)
    rows = [line.split(" ", 1) for _, line in decoded_lines(content, where=where, latin=True)]
    labels = np.array([label.partition(":")[0] for label, _ in rows])
    return SentencePart(tuple(question.strip() for _, question in rows), labels)
