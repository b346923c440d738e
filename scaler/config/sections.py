"""The base of the configuration file's parts: how their keys are spelled, and rules about several keys at once.

pydantic looks at several keys of a part only once each of them is right by itself. A person who mends a file wants all
that is wrong with it in one go, so `rule_problems` applies the same rules to the document as it was written.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from scaler.config.fields import camel_key
from scaler.config.models import Frozen
from scaler.config.problems import KeyPath, Problem


class Section(Frozen):
    """Base of all parts of the file: camelCase keys, and a key that is not known is an error."""

    model_config = ConfigDict(alias_generator=camel_key)

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong between keys. `given` has those that the file sets, by their names in the file."""
        del given
        yield from ()

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        values = {camel_key(name): getattr(self, name) for name in self.model_fields_set}
        for message in self.rules(_given(values)):
            raise ValueError(message)
        return self


def both_or_neither(given: Mapping[str, Any], first: str, second: str) -> Iterator[str]:
    """Yield that two keys go together, when only one is given."""
    if (first in given) != (second in given):
        yield f"must give {first} and {second} together, or neither"


def rule_problems(model: type[BaseModel], raw: Any, path: KeyPath = ()) -> Iterator[Problem]:
    """Yield every rule that a document breaks, in the part `model` and those within, whatever else is wrong there."""
    if not isinstance(raw, Mapping):
        return  # reported as of the wrong kind
    if issubclass(model, Section):
        yield from (Problem(path, message) for message in model.rules(_given(raw)))
    for name, field in model.model_fields.items():
        key = camel_key(name)
        for inner in (field.annotation, *get_args(field.annotation)):
            if key in raw and isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from rule_problems(inner, raw[key], (*path, key))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that say something: null, false and an empty list are as if left out."""
    return {
        key: value
        for key, value in values.items()
        if value is not None and value is not False and value not in ((), [])
    }
