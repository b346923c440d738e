import json
from pathlib import Path
from typing import Any

import pytest

from scaler.config.models import DecisionSettings, RateLimit
from scaler.config.process import ProcessConfig
from scaler.report.schemas import SCHEMAS, schema_text, write_schemas

FOLDER = Path(__file__).parents[3] / "docs" / "schemas"


def test_the_checked_in_schemas_are_the_generated_ones(tmp_path: Path) -> None:
    """Generating the schemas anew changes nothing."""
    write_schemas(tmp_path)
    generated = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert generated == {name: (FOLDER / name).read_text() for name in generated}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_json_of_the_stated_draft(name: str) -> None:
    """Each schema states its draft and describes an object."""
    schema = json.loads(schema_text(name))
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["type"] == "object"


def test_every_setting_of_the_decision_can_be_configured() -> None:
    """The file has a key for each platform setting, with the same default; a duration is a text or a number there."""
    definitions = ProcessConfig.model_json_schema()["$defs"]
    for section, model in (("DecisionSection", DecisionSettings), ("RateSection", RateLimit)):
        properties: dict[str, Any] = definitions[section]["properties"]
        assert len(properties) == len(model.model_fields)
        durations = [p for p in properties.values() if p.get("type") == ["string", "number"]]
        assert len(durations) == sum(name.endswith("_s") for name in model.model_fields)
    assert DecisionSettings() == DecisionSettings.model_validate(ProcessConfig().decision.model_dump())
