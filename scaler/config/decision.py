"""The decision's settings as a file spells them: durations are texts, keys are camelCase."""

from typing import Any

from pydantic import ConfigDict, field_validator

from scaler.config.fields import camel_key, duration_schema, seconds
from scaler.config.models import DecisionSettings, RateLimit


def _durations_in_schema(names: tuple[str, ...]) -> ConfigDict:
    """Return a model configuration whose schema shows these number fields as the durations that a file has there."""

    def show(schema: dict[str, Any]) -> None:
        for name in names:
            old = schema["properties"][camel_key(name)]
            schema["properties"][camel_key(name)] = {
                **{key: old[key] for key in ("default", "title") if key in old},
                **duration_schema("> 0" if "exclusiveMinimum" in old else ">= 0"),
            }

    return ConfigDict(alias_generator=camel_key, json_schema_extra=show)


_RATE_DURATIONS = tuple(name for name in RateLimit.model_fields if name.endswith("_s"))
_DECISION_DURATIONS = tuple(name for name in DecisionSettings.model_fields if name.endswith("_s"))


class RateSection(RateLimit):
    """`RateLimit` as a file spells it."""

    model_config = _durations_in_schema(_RATE_DURATIONS)
    _seconds = field_validator(*_RATE_DURATIONS, mode="before")(seconds)


class DecisionSection(DecisionSettings):
    """`DecisionSettings` as a file spells them: the same fields, so that neither can lag behind the other."""

    model_config = _durations_in_schema(_DECISION_DURATIONS)
    rate: RateSection = RateSection()
    _seconds = field_validator(*_DECISION_DURATIONS, mode="before")(seconds)
