"""The recording rules: what they record, and that they are of what is exported and of what is read."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scaler.adapters.exporter import METRICS
from scaler.adapters.history.own import recorded_names

RULES = Path(__file__).parents[2] / "dashboards" / "rules"
PROMTOOL = shutil.which("promtool")


@pytest.mark.prometheus
@pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH: the recording rules were not tested")
@pytest.mark.parametrize("command", [("check", "rules"), ("test", "rules")])
def test_promtool_finds_the_rules_to_be_right(command: tuple[str, str]) -> None:
    """They parse, and record from given series what their tests say."""
    assert PROMTOOL is not None
    name = "headway-recording.yaml" if command[0] == "check" else "headway-recording.test.yaml"
    ran = subprocess.run([PROMTOOL, *command, name], cwd=RULES, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_rules_record_what_is_read_from_what_is_exported() -> None:
    """Each name in a rule is exported or recorded, and history reads no name that nothing records."""
    rules = [
        rule
        for group in yaml.safe_load((RULES / "headway-recording.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]
    recorded = {rule["record"] for rule in rules}
    used = {name for rule in rules for name in re.findall(r"headway[_:][a-z0-9_:]+", rule["expr"])}
    assert used <= recorded | {metric.name for metric in METRICS}
    assert recorded_names() <= recorded
