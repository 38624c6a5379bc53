"""The base of all estimators: parameters declared once, saving and loading, what sklearn reads.

A class names its parameters in its body:

    class Mean(Estimator):
        smoothing: float = parameter(Positive(), "counts added to every item", default=1.0)

From this line come the keyword-only constructor, `get_params`, `set_params` and `repr`, the check
before a fit, the documentation, the command line's option and the saved configuration. Parameters
that several estimators have are declared in a class that they derive from; a subclass that declares
one again replaces what it gives: `smoothing: float = parameter(default=0.5)` changes the
default alone. One that sets it to a plain value, `smoothing = 1.0`, has that and no parameter.
"""

import difflib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, dataclass_transform

import numpy as np

from exfam.checks import ExfamError
from exfam.estimator.rules import Rule, python_number
from exfam.estimator.scikit import Routed

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from exfam.estimator.seen import Seen
    from exfam.training.history import History

# In the order in which documentation and signatures have them.
_SECTIONS = ("Columns", "Files", "Text", "Model", "Training")
_MARK = "{parameters}"
_WIDTH = 96
_UNSET = object()

_Settings = TypeVar("_Settings")
_Loaded = TypeVar("_Loaded")
_Framed = TypeVar("_Framed")


@dataclass(frozen=True)
class Parameter:
    """One parameter; where `rule`, `text` or `section` is None, that of the class derived from."""

    default: Any
    rule: Rule | None = None
    text: str | None = None
    section: str | None = None
    annotation: Any = Any


@dataclass(frozen=True)
class _Attribute:
    """Marks an annotated attribute that is no parameter."""

    default: Any


def parameter(rule: Rule | None = None, text: str | None = None, *, default: Any) -> Any:
    """A parameter of the class in whose body it stands: its rule, its one line, its default."""
    return Parameter(default, rule, text)


def attribute(default: Any = _UNSET, *, init: Literal[False] = False) -> Any:
    """An attribute that is annotated in a class body and is no parameter, such as `members_`.

    `default`: its value on the class; without one, the class has no such attribute
    """
    return _Attribute(default)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter, attribute))
class Declared:
    """Parameters as scikit-learn has them, without the time and memory that importing it takes.

    >>> from exfam.estimator.rules import Whole
    >>> class Model(Declared):
    ...     dim: int = parameter(Whole(), "length of a vector", default=200)
    >>> Model(dim=8).get_params(), Model(dim=8), Model().set_params(dim=1)
    ({'dim': 8}, Model(dim=8), Model(dim=1))
    """

    declared: ClassVar[Mapping[str, Parameter]] = MappingProxyType({})

    def __init_subclass__(cls, *, section: str | None = None, **kwargs: Any) -> None:
        """Collect the parameters of the class and of those that it derives from."""
        super().__init_subclass__(**kwargs)
        _take_parameters(cls, section)
        cls.declared = MappingProxyType(_collected(cls))
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        if cls.__doc__ and _MARK in cls.__doc__:
            cls.__doc__ = _with_parameters(cls.__doc__, cls.declared)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Names and values of all parameters; `deep` makes no difference."""
        return {name: getattr(self, name) for name in self.declared}

    def set_params(self, **params: Any) -> Any:
        """Set some, by name; ExfamError, with nothing set, for a name that is no parameter."""
        for name in params:
            if name not in self.declared:
                raise ExfamError(
                    f"`{name}` must be a parameter of {type(self).__name__}, which has "
                    f"{', '.join(self.declared)}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def check_rules(self) -> None:
        """Raise ExfamError for the first parameter that breaks its rule."""
        for name, declaration in self.declared.items():
            if declaration.rule is not None:
                declaration.rule.check(name, getattr(self, name))

    def __dir__(self) -> list[str]:
        """What one calls: without scikit-learn's metadata routing, and without declarations."""
        return [name for name in super().__dir__() if not _is_machinery(name)]

    def __repr__(self) -> str:
        """The parameters that differ from their defaults."""
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, declaration in self.declared.items()
            if repr(getattr(self, name)) != repr(declaration.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _is_machinery(name: str) -> bool:
    is_request = name.startswith("set_") and name.endswith("_request")
    return is_request or name in ("get_metadata_routing", "declared", "check_rules")


def settings_from(estimator: Any, kind: Callable[..., _Settings], **given: Any) -> _Settings:
    """A dataclass of settings: `given` fields, the others from parameters of the same names."""
    names = [field.name for field in fields(kind) if hasattr(estimator, field.name)]  # type: ignore[arg-type]
    return kind(**{name: python_number(getattr(estimator, name)) for name in names} | given)


def _take_parameters(cls: type, section: str | None) -> None:
    """Complete the class's own declarations; attributes without a default leave the class."""
    annotations = inspect.get_annotations(cls)
    for name, value in list(vars(cls).items()):
        if isinstance(value, _Attribute):
            delattr(cls, name)
            if value.default is not _UNSET:
                setattr(cls, name, value.default)
        elif isinstance(value, Parameter):
            annotation = annotations.get(name, Any)
            setattr(cls, name, replace(value, annotation=annotation, section=section))


def _collected(cls: type) -> dict[str, Parameter]:
    """All parameters, by section, those of the most general class first."""
    declarations: dict[str, Parameter] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Parameter):
                inherited = declarations.get(name)
                kept = {
                    part: getattr(value, part) or getattr(inherited, part, None)
                    for part in ("rule", "text", "section")
                }
                declarations[name] = replace(value, **kept)
            else:
                declarations.pop(name, None)
    complete = {
        name: replace(declaration, section=declaration.section or "Model")
        for name, declaration in declarations.items()
    }
    return dict(sorted(complete.items(), key=lambda item: section_rank(item[1].section)))


def section_rank(section: str | None) -> int:
    """Where documentation has a section, by its first word."""
    return next(
        (k for k, name in enumerate(_SECTIONS) if (section or "").startswith(name)),
        len(_SECTIONS),
    )


def _constructor(cls: type) -> Any:
    """The `__init__` of a class, with the signature that its parameters make."""
    declared: Mapping[str, Parameter] = cls.declared  # type: ignore[attr-defined]

    def __init__(self: Any, **given: Any) -> None:
        for name in given:
            if name not in declared:
                close = difflib.get_close_matches(name, declared, n=1)
                hint = f" Did you mean {close[0]}?" if close else ""
                raise TypeError(f"{type(self).__name__}() has no parameter {name!r}.{hint}")
        for name, declaration in declared.items():
            setattr(self, name, given.get(name, declaration.default))

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keywords = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=declaration.default,
            annotation=declaration.annotation,
        )
        for name, declaration in declared.items()
    ]
    __init__.__signature__ = inspect.Signature([itself, *keywords])  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__module__ = cls.__module__
    return __init__


def _with_parameters(docstring: str, declared: Mapping[str, Parameter]) -> str:
    """The docstring, with the parameters, by section, where it has the mark."""
    sections: dict[str, list[str]] = {}
    for name, declaration in declared.items():
        limits = "" if declaration.rule is None else declaration.rule.limits
        text = f"`{name}`: {declaration.text or ''}{limits and f'; {limits}'} "
        line = textwrap.fill(
            f"{text}(default {declaration.default!r})", _WIDTH, subsequent_indent="    "
        )
        sections.setdefault(declaration.section or "Model", []).append(line)
    text = "\n\n".join(f"{section}:\n" + "\n".join(lines) for section, lines in sections.items())
    return inspect.cleandoc(docstring).replace(_MARK, text)


class Estimator(Declared, Routed):
    """Parameters, a fit, and a folder that holds both.

    A class of a slice says what it is fitted to, and implements `fit`. To be saved, it has a `kind`
    that the registry lists, and says what its folder needs besides parameters and networks.

    `parameters_`: those of the fit. What is fitted is used, and built again, by these: what
    `set_params` changes later is for the next fit.
    `histories_`: what happened in training, one of each member. `seen_`: hashes of what the model
    was fitted on. `data_counts_`: how much data it had, by what is counted; `fit_seconds_`: how
    long the fit took, on the clock; `frame_kind_`: the kind of frame that it was given;
    `file_settings_`: how its files were found to be written, which decides where others are
    ambiguous.
    """

    kind: ClassVar[str]
    # The attribute that exists once the estimator is fitted.
    fitted_attribute: ClassVar[str] = "members_"

    members_: list[Any] = attribute()
    parameters_: dict[str, Any] = attribute()
    histories_: "list[History]" = attribute()
    seen_: "Seen" = attribute()
    data_counts_: dict[str, int] = attribute()
    fit_seconds_: float = attribute()
    frame_kind_: str = attribute()
    file_settings_: dict[str, str] = attribute()

    def __repr__(self) -> str:
        """The parameters that differ from their defaults, and once fitted what was gained."""
        from exfam.estimator.gain import gain_sentences

        return "\n".join([super().__repr__(), *gain_sentences(self)])

    @property
    def history_(self) -> "History":
        """What happened in training, epoch by epoch, of the first member.

        Raises AttributeError for a model that was not trained in epochs.
        """
        self._check_fitted()
        histories = getattr(self, "histories_", None)
        if not histories:
            raise AttributeError(f"{type(self).__name__} was fitted without epochs, so no history_")
        return histories[0]

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model to a folder: safetensors, JSON and Parquet, no pickle."""
        from exfam.estimator.saving import save_estimator

        self._check_fitted()
        save_estimator(self, path, overwrite=overwrite)

    @classmethod
    def load(cls: type[_Loaded], path: str | PathLike[str]) -> _Loaded:
        """The model saved in a folder.

        Raises ModelFileError if it is damaged, newer, or of another estimator.
        """
        from exfam.estimator.saving import load_estimator

        loaded: _Loaded = load_estimator(path, expected=cls)
        return loaded

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a folder needs besides parameters and members: plain JSON, and tensors or arrays."""
        return {}, {}

    def _restore(
        self,
        config: dict[str, Any],
        tensors: dict[str, Any],
        vocabulary: dict[str, np.ndarray],
    ) -> None:
        """Take back what `_state` gave."""

    def _restored_member(self, config: dict[str, Any]) -> Any:
        """A member of the fitted shape, its numbers to be loaded; `config` has its number."""
        raise ValueError(f"{type(self).__name__} has no members")

    def _labels(self) -> Mapping[str, np.ndarray]:
        """The labels of codes, by column, that a folder keeps."""
        labels: Mapping[str, np.ndarray] = self.vocabulary_  # type: ignore[attr-defined]
        return labels

    def _check_parameters(self) -> None:
        """Raise ExfamError for a parameter that no data could make right."""
        self.check_rules()

    def _repr_html_(self) -> str:
        from exfam.estimator.view import model_html

        return model_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks show; text alone where scikit-learn's `display` says so."""
        from sklearn import get_config

        shown = {"text/plain": repr(self)}
        is_text = get_config()["display"] == "text"
        return shown if is_text else shown | {"text/html": self._repr_html_()}

    def _framed(self, result: _Framed) -> _Framed:
        """A result that no data were given for: its frames are of the kind that `fit` was given."""
        changed: Any = replace(result, frame_kind=getattr(self, "frame_kind_", "pyarrow"))  # type: ignore[type-var]
        framed: _Framed = changed
        return framed

    def _check_fitted(self) -> None:
        check_fitted(self, self.fitted_attribute)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` or `load` has made a model."""
        return hasattr(self, self.fitted_attribute)

    def __sklearn_tags__(self) -> "Tags":
        """Frames, files or texts, cells of which may be missing, and no y."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, string=True, categorical=True, allow_nan=True),
        )


def check_fitted(estimator: Any, name: str) -> None:
    """Raise scikit-learn's NotFittedError unless `fit` has made the attribute `name`."""
    if not hasattr(estimator, name):
        from sklearn.exceptions import NotFittedError

        kind = type(estimator).__name__
        raise NotFittedError(
            f"This {kind} instance is not fitted yet. Call 'fit' with appropriate arguments "
            "before using this estimator."
        )
