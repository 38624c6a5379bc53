"""The encoder that a probe is given."""

from exfam.cli.kinds import text
from exfam.cli.options import Option

__all__ = ["ENCODER"]

ENCODER = Option(
    "encoder", text, "the folder of a transformers model and its tokenizer; nothing is downloaded",
    metavar="ENCODER", place=True, required=True,
)  # fmt: skip
