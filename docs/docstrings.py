"""exfam's docstrings as reStructuredText: parameters become lists, `names` become code."""

import re
from collections.abc import Sequence

# "`dropout`: share of units …", or "`values`, `attributes`: …", at the start of a line.
_ENTRY = re.compile(r"^(`[^`]+`(?:, `[^`]+`)*): ")
# Code, or a bar outside of it, which reStructuredText would take for a substitution.
_CODE_OR_BAR = re.compile(r"(``.*?``)|\|")
_CODE = re.compile(r"(?<![`:\\])`([^`\n]+)`(?!`)")


def as_restructured_text(lines: Sequence[str]) -> list[str]:
    """The docstring's lines with entries as bullets and single backticks as code.

    >>> as_restructured_text(["Sizes:", "`dim`: length of", "    a vector", "Raises `E`."])
    ['Sizes:', '', '- ``dim``: length of', '  a vector', '', 'Raises ``E``.', '']
    """
    out: list[str] = []
    in_list = in_example = False
    for line in lines:
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        is_entry = not in_example and _ENTRY.match(line) is not None
        continues = in_list and line.startswith("    ") and not in_example
        turns = is_entry != in_list and not continues
        if turns and line.strip() and out and out[-1].strip():
            out.append("")  # a list begins and ends with an empty line
        in_list = is_entry or continues
        text = line if in_example else _marked(line)
        out.append(f"- {text}" if is_entry else f"  {text.strip()}" if continues else text)
    return out if out and not out[-1] else [*out, ""]


def _marked(line: str) -> str:
    """The line with names as code and bars as bars.

    >>> print(_marked("`a | b` is |a| or |b|"))
    ``a | b`` is \\|a\\| or \\|b\\|
    """
    code = _CODE.sub(r"``\1``", line)
    return _CODE_OR_BAR.sub(lambda found: found[1] or r"\|", code)
