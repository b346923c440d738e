"""The base of the configuration file's parts: how their keys are spelled, and rules about several keys at once.

pydantic looks at several keys of a part only once each of them is right by itself. A person who mends a file wants all
that is wrong with it in one go, so `rule_problems` applies the same rules to the document as it was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from scaler.config.fields import camel_key
from scaler.config.models import Frozen
from scaler.config.problems import KeyPath, Problem, RuleError


class Section(Frozen):
    """Base of all parts of the file: camelCase keys, and a key that is not known is an error."""

    model_config = ConfigDict(alias_generator=camel_key)

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield what is wrong between keys: of this part as a whole, or of a key in it.

        `given` has the keys that the file sets, by their names in the file; a part within is a mapping or a model.
        """
        del given
        yield from ()

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        for problem in broken_rules(type(self), keys_given(self)):
            raise RuleError(problem)
        return self


def broken_rules(model: type[Section], given: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what a part's own rules have against it, seen from there."""
    for broken in model.rules(given):
        yield broken if isinstance(broken, Problem) else Problem((), broken)


def keys_given(value: Any) -> dict[str, Any]:
    """Return the keys of a part that say something: null, false and an empty list are as if left out."""
    if isinstance(value, BaseModel):
        value = {camel_key(name): getattr(value, name) for name in value.model_fields_set}
    return {key: inner for key, inner in value.items() if _says_something(inner)} if isinstance(value, Mapping) else {}


def _says_something(value: Any) -> bool:
    return value is not None and value is not False and value not in ((), [])


def both_or_neither(given: Mapping[str, Any], first: str, second: str) -> Iterator[str]:
    """Yield that two keys go together, when only one is given."""
    if (first in given) != (second in given):
        yield f"must give {first} and {second} together, or neither"


def exactly_one(given: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Yield that there must be one of several keys, when there is none or more than one."""
    chosen = [name for name in names if name in given]
    if len(chosen) != 1:
        yield f"must give exactly one of {', '.join(names)}, was {' and '.join(chosen) or 'none'}"


def rule_problems(model: type[BaseModel], raw: Any, path: KeyPath = ()) -> Iterator[Problem]:
    """Yield every rule that a document breaks, in the part `model` and those within, whatever else is wrong there."""
    if not isinstance(raw, Mapping):
        return  # reported as of the wrong kind
    if issubclass(model, Section):
        yield from (problem.under(*path) for problem in broken_rules(model, keys_given(raw)))
    for name, field in model.model_fields.items():
        key = camel_key(name)
        if key not in raw:
            continue
        for inner in _models_in(field.annotation):
            if isinstance(raw[key], list):
                for index, item in enumerate(raw[key]):
                    yield from rule_problems(inner, item, (*path, key, index))
            else:
                yield from rule_problems(inner, raw[key], (*path, key))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the parts that a key may hold: `X`, `X | None` or a list of `X`."""
    for inner in (annotation, *get_args(annotation)):
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield inner
