"""Configurations: options in a YAML file, each error with its file and line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from exfam.checks import ExfamError, shown
from exfam.cli.options import Form, convert
from exfam.cli.words import suggestion


def read_config(form: Form, path: str) -> dict[str, Any]:
    """The options that a configuration gives, each of its kind.

    Raises ExfamError naming file and line for what is no YAML, no option or of another kind, and
    for a key that comes twice.
    """
    pairs = _pairs(path)
    options = {option.name: option for option in form.options}
    config: dict[str, Any] = {}
    for key, value, line in pairs:
        where = f" at line {line} of {path}"
        if key not in options:
            raise ExfamError(
                f"`--config` must hold options of `{form.spoken_name}`, got {shown(key)}{where}. "
                f"{suggestion(str(key), options)}"
            )
        if key in config:
            raise ExfamError(f"`--config` must hold {shown(key)} once, got it again{where}.")
        # An option without a default is written null where it is not given.
        given = value is not None or options[key].default is not None
        config[key] = convert(options[key], value, where=where) if given else None
    return config


def last_given(name: str, words: Sequence[str]) -> str:
    """What an option is at last, in words or in a configuration; errors are left to the parser."""
    values = _values_of(f"--{name}", words)
    for path in _values_of("--config", words):
        try:
            config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            continue
        if isinstance(config, dict) and name in config:
            values.insert(0, str(config[name]))
    return values[-1] if values else ""


def _values_of(name: str, words: Sequence[str]) -> list[str]:
    pairs = zip(words, [*words[1:], ""], strict=False)
    return [
        word.partition("=")[2] if "=" in word else following
        for word, following in pairs
        if word == name or word.startswith(f"{name}=")
    ]


def _pairs(path: str) -> list[tuple[Any, Any, int]]:
    """Keys and values of the mapping in a YAML file, each with its line."""
    content = _content(path)
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
        data = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1} of {path}" if mark else path
        raise ExfamError(f"`--config` must be YAML, got {error.problem} at {where}.") from error
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        # Values such as a date of month 13, or brackets in thousands.
        reason = str(error) or type(error).__name__
        raise ExfamError(f"`--config` must be YAML, got {reason} in {path}.") from error
    if not isinstance(data, dict) or not isinstance(node, yaml.MappingNode):
        kind = "nothing" if data is None else f"a {type(data).__name__}"
        raise ExfamError(
            f"`--config` must hold one option a line, `name: value`, got {kind} in {path}. "
            "--print_config writes such a file."
        )
    pairs = []
    for key_node, _ in node.value:
        # "<<" would merge another mapping into this one.
        is_merge = key_node.tag == "tag:yaml.org,2002:merge"
        key = "<<" if is_merge else yaml.SafeLoader("").construct_object(key_node, deep=True)
        pairs.append((key, data.get(key), key_node.start_mark.line + 1))
    return pairs


def _content(path: str) -> str:
    file = Path(path)
    if not file.is_file():
        got = "a folder" if file.is_dir() else "nothing"
        raise ExfamError(f"`--config` must be a YAML file, got {got} at {path}.")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ExfamError(
            f"`--config` must be text in UTF-8, got byte {error.object[error.start]:#04x} at line "
            f"{line} of {path}."
        ) from error
