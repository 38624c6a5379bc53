"""Lines of files of sentences, each with its number for errors."""

from collections.abc import Iterator

from exfam.checks import DataError


def decoded_lines(content: bytes, *, where: str, latin: bool = False) -> Iterator[tuple[int, str]]:
    """Number and text of each line, without its end; a line end at the end of the file ends it.

    `latin`: whether a file that is not UTF-8 is Latin-1

    Raises DataError, naming file and line, for what is not UTF-8 but should be.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        if not latin:
            number = content.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"`path` must be encoded in UTF-8, got {content[error.start : error.end]!r} at "
                f"line {number} of {where}. Convert the file to UTF-8."
            ) from error
        text = content.decode("latin-1")
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        yield number, line.removesuffix("\r")
