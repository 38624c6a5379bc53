"""Parsed sentences of weblogs, mail and reviews: Universal Dependencies' English Web Treebank."""

from exfam.checks import check_choice
from exfam.reading.public_sets.files import Source, read_file
from exfam_studies.positions.parses import DependencyParse, parses_of

PARTS = ("dev", "test")
_MD5 = {"dev": "cb1da95ff28a449cb9bc286c922e15e1", "test": "01630da0129f8600ef761dbcfd18b9e2"}
SOURCE = Source(
    "English Web Treebank",
    how_to_get="They are in https://github.com/UniversalDependencies/UD_English-EWT: put them into "
    "FOLDER/parses and set EXFAM_DATA=FOLDER.",
    md5={f"parses/en_ewt-ud-{part}.conllu": md5 for part, md5 in _MD5.items()},
)


def english_parses(part: str) -> list[DependencyParse]:
    """The sentences of a part, "dev" or "test".

    Files are looked for in the folder `parses` of the one that EXFAM_DATA names, then in the user's
    cache. Raises ExfamError for another part; DataError, saying how to obtain the file, where it
    cannot be had or is not the published one.

    >>> PARTS
    ('dev', 'test')
    """
    check_choice("part", part, PARTS)
    name = f"parses/en_ewt-ud-{part}.conllu"
    return parses_of(read_file(SOURCE, name), where=name)
