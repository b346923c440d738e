import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from scaler.config.models import DecisionSettings, RateLimit
from scaler.config.process import ProcessConfig
from scaler.report.announcement import Announcement
from scaler.report.explain import read_plan
from scaler.report.plan_document import ExplainDocument
from scaler.report.plan_json import plan_document
from scaler.report.schemas import SCHEMAS, schema_text, write_schemas
from tests.plan_builders import AT_S, plan, recommendation, unknown

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


def test_an_explanation_is_an_entry_of_the_plan() -> None:
    """`headway explain --json` holds the entry as /plan has it, every key included."""
    shown = plan_document(plan(recommendation(), unknown()), version=None, leader=True, now_s=AT_S)
    for entry in read_plan(shown).workloads:
        document = {"schema": 1, "workload": entry.model_dump(mode="json")}
        assert ExplainDocument.model_validate(document).model_dump(mode="json") == document
        assert document["workload"] in shown["workloads"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({"role": "demo"}, "role"), ({"addresses": {"http": "127.0.0.1:0"}}, "addresses"), ({"pid": 1}, "pid")],
)
def test_an_announcement_has_ports_that_can_be_called(changes: dict[str, Any], problem: str) -> None:
    """A role says which it is and the ports that were bound, and no more."""
    document = {"schema": 1, "role": "scaler", "addresses": {"http": ":8082", "grpc": "[::1]:6000"}}
    assert Announcement.model_validate(document).model_dump(mode="json") == document
    with pytest.raises(ValidationError) as caught:
        Announcement.model_validate(document | changes)
    assert [error["loc"][0] for error in caught.value.errors()] == [problem]


def test_every_setting_of_the_decision_can_be_configured() -> None:
    """The file has a key for each platform setting, with the same default; a duration is a text or a number there."""
    definitions = ProcessConfig.model_json_schema()["$defs"]
    for section, model in (("DecisionSection", DecisionSettings), ("RateSection", RateLimit)):
        properties: dict[str, Any] = definitions[section]["properties"]
        assert len(properties) == len(model.model_fields)
        durations = [p for p in properties.values() if p.get("type") == ["string", "number"]]
        assert len(durations) == sum(name.endswith("_s") for name in model.model_fields)
    assert DecisionSettings() == DecisionSettings.model_validate(ProcessConfig().decision.model_dump())
