"""The JSON Schemas that are checked in under docs/schemas, generated from the models that Headway itself uses.

`python -m scaler.report.schemas docs/schemas` writes them; a test fails when they have drifted.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from scaler.config.findings import CheckDocument
from scaler.config.process import ProcessConfig
from scaler.report.announcement import Announcement
from scaler.report.forecast_documents import EvaluateDocument, ForecastDocument
from scaler.report.plan_document import ExplainDocument, PlanDocument
from scaler.report.rights_document import RightsDocument
from scaler.report.run_record import DemoResult

SCHEMAS: Mapping[str, type[BaseModel]] = {
    "config": ProcessConfig,  # the file of headway serve, controller and scaler
    "plan": PlanDocument,  # what /plan answers
    "explain": ExplainDocument,  # headway explain --json
    "announcement": Announcement,  # headway serve, controller and scaler --json
    "check": CheckDocument,  # headway check --json
    "rights": RightsDocument,  # headway rights --json
    "demo": DemoResult,  # headway demo --json
    "evaluate": EvaluateDocument,  # headway evaluate --json
    "forecast": ForecastDocument,  # headway forecast --json
}


def schema_text(name: str) -> str:
    """Return a schema as the text of its file. A document that Headway writes has every key; one that it reads, any."""
    schema = SCHEMAS[name].model_json_schema(mode="validation" if name == "config" else "serialization")
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(document, indent=2) + "\n"


def write_schemas(folder: Path) -> None:
    """Write every schema to `<folder>/<name>.schema.json`."""
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(schema_text(name))


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
