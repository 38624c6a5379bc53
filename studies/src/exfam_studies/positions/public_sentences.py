"""Public sets of labeled sentences: reviews, opinions, questions and paraphrases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, Shaped

from exfam.checks import check_choice, check_whole
from exfam.reading.public_sets.published import PublicFiles, read_file

# A sentence, or a pair of sentences.
Sentence = str | tuple[str, str]
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
_ENCODINGS = {"TREC.train": "latin-1"}
SENTENCE_SETS = (*_LABELED, *_PARTED)
SOURCE = PublicFiles(
    "sentences",
    how_to_get="rt-polarity.* and {plot,quote}.tok.gt9.5000 are in the packages sentence_polarity "
    "and subjectivity of https://github.com/nltk/nltk_data; TREC.* and mpqa.* in data/raw of "
    "https://github.com/harvardnlp/sent-conv-torch; msr_paraphrase_*.txt is Microsoft Research's "
    "Paraphrase Corpus: put them into FOLDER/sentences and set EXFAM_DATA=FOLDER.",
    md5={f"sentences/{name}": md5 for name, md5 in _MD5.items()},
)


@dataclass(frozen=True, eq=False)
class SentencePart:
    """Sentences, or pairs of them, and the label of each."""

    sentences: tuple[Sentence, ...]
    targets: Shaped[np.ndarray, "sentences"]

    def __len__(self) -> int:
        return len(self.sentences)

    def rows(self, indices: Int64[np.ndarray, "indices"]) -> "SentencePart":
        """The sentences at some indices, in that order."""
        return SentencePart(tuple(self.sentences[i] for i in indices), self.targets[indices])

    def share(self, label: str) -> float:
        """How many of the sentences have a label, in [0, 1]."""
        return float((self.targets == label).mean())

    @property
    def labeled(self) -> tuple[tuple[Sentence, ...], np.ndarray]:
        """What a classifier is fitted to and scored on."""
        return self.sentences, self.targets


@dataclass(frozen=True, eq=False)
class SentenceTask:
    """Sentences to fit on, to choose by and to report on; the three share no sentence or pair."""

    name: str
    train: SentencePart
    validation: SentencePart
    test: SentencePart

    @property
    def parts(self) -> dict[str, SentencePart]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def spread(self, n: int) -> "SentenceTask":
        """At most `n` sentences of each part, from the first to the last at equal steps."""
        parts = self.parts.values()
        steps = (np.linspace(0, len(part) - 1, min(n, len(part))) for part in parts)
        chosen = (part.rows(own.astype(np.int64)) for part, own in zip(parts, steps, strict=True))
        return SentenceTask(self.name, *chosen)

    def majority(self) -> tuple[float, float]:
        """Accuracy of the most frequent label of `train`: of the test and the validation part."""
        labels, counts = np.unique(self.train.targets, return_counts=True)
        usual = labels[counts.argmax()]
        return self.test.share(usual), self.validation.share(usual)


def sentence_task(name: str, *, seed: int) -> SentenceTask:
    """A public set of labeled sentences; `seed` draws the parts that are not given.

    "mr": reviews of films, negative or positive (10,662)
    "subj": objective plots and subjective reviews of films (10,000)
    "mpqa": phrases of opinion, negative or positive (10,603 and 3 blank lines that are left out)
    "trec": six kinds of questions (5,442 and 500; the 10 that are in both count as test)
    "mrpc": pairs of sentences, paraphrases ("1") or not ("0") (4,076 and 1,725)

    A tenth of the sentences is the validation part, and another the test part where none is given,
    label by label. Copies of a sentence are in one part; of MRPC this holds for pairs, not for the
    sentences within them. Raises ExfamError for another name; DataError, saying how to obtain the
    file, where it cannot be had in EXFAM_DATA/sentences or the user's cache, or is another one.
    """
    check_choice("name", name, SENTENCE_SETS)
    if name in _LABELED:
        lines = [(label, line) for label, f in _LABELED[name].items() for line in _lines(f)]
        labels, sentences = zip(*lines, strict=True)
        whole = SentencePart(sentences, np.array(labels))
        return SentenceTask(name, *draw_parts(whole, fractions=(0.1, 0.1), seed=seed))
    read = _paraphrases if name == "mrpc" else _questions
    given, test = (read(file) for file in _PARTED[name])
    others = {_key(sentence) for sentence in test.sentences}
    stays = [i for i, sentence in enumerate(given.sentences) if _key(sentence) not in others]
    whole = given.rows(np.array(stays))
    train, validation = draw_parts(whole, fractions=(0.1,), seed=seed)
    return SentenceTask(name, train, validation, test)


def draw_parts(part: SentencePart, *, fractions: Sequence[float], seed: int) -> list[SentencePart]:
    """The rest of a part, then parts of it with those fractions of its different sentences.

    Each has its fraction of the sentences of every label. Copies of a sentence, or of a pair, stay
    together, with the label of the first; white space does not make two different.
    """
    check_whole("seed", seed, least=0)
    number: dict[tuple[str, ...], int] = {}
    copy_of = np.array([number.setdefault(_key(s), len(number)) for s in part.sentences])
    strata = part.targets[np.unique(copy_of, return_index=True)[1]]
    rng = np.random.default_rng(seed)
    part_of = np.zeros(len(strata), dtype=np.int64)
    for stratum in np.unique(strata):
        drawn = rng.permutation(np.flatnonzero(strata == stratum))
        ends = np.rint(np.cumsum([0.0, *fractions]) * len(drawn)).astype(np.int64)
        for k, (start, end) in enumerate(zip(ends[:-1], ends[1:], strict=True), 1):
            part_of[drawn[start:end]] = k
    return [part.rows(np.flatnonzero(part_of[copy_of] == k)) for k in range(len(fractions) + 1)]


def _key(sentence: Sentence) -> tuple[str, ...]:
    texts = (sentence,) if isinstance(sentence, str) else sentence
    return tuple(" ".join(text.split()) for text in texts)


def _lines(file: str) -> list[str]:
    """Lines that are not blank."""
    text = read_file(SOURCE, f"sentences/{file}").decode(_ENCODINGS.get(file, "utf-8-sig"))
    return [line.strip() for line in text.split("\n") if line.strip()]


def _questions(file: str) -> SentencePart:
    """Of lines "LOC:city What city ..." the coarse of the two labels, and the question."""
    rows = [line.split(" ", 1) for line in _lines(file)]
    labels = np.array([label.partition(":")[0] for label, _ in rows])
    return SentencePart(tuple(question.strip() for _, question in rows), labels)


def _paraphrases(file: str) -> SentencePart:
    """Of columns apart by tabs under a header: whether two sentences mean the same, and the two.

    A quote in such a file is a character like any other.
    """
    rows = [line.split("\t") for line in _lines(file)[1:]]
    pairs = tuple((first.strip(), second.strip()) for *_, first, second in rows)
    return SentencePart(pairs, np.array([quality for quality, *_ in rows]))
