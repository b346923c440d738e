"""docs/signals.md says what the presets say, and names tests that exist."""

import re
from pathlib import Path

import pytest

from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.presets import DEVICES, ENGINES
from scaler.adapters.signals.tables import markdown

TESTS = Path(__file__).parents[2]
PAGE = (TESTS.parent / "docs" / "signals.md").read_text()
FAILURES = PAGE.partition("## Public failures")[2]
KNOWN = range(1, 30)


def test_the_page_holds_what_the_presets_say() -> None:
    """The generated part is up to date: `python -m scaler.adapters.signals.tables`."""
    assert markdown() in PAGE


@pytest.mark.parametrize("preset", [*ENGINES.values(), *DEVICES], ids=lambda preset: preset.name)
def test_each_preset_says_what_it_was_checked_against_and_what_to_know(preset: Preset) -> None:
    """A version, and notes that a reader can act on."""
    assert preset.version
    assert preset.notes.startswith("- ")


def test_every_public_failure_has_a_row() -> None:
    """Each with a test or a reason."""
    rows = {int(row[1]): row[2] for row in re.finditer(r"^\| (\d+) \|[^|]*\|[^|]*\|([^|]+)\|$", FAILURES, re.MULTILINE)}
    assert set(KNOWN) <= rows.keys()
    assert all(text.strip() for text in rows.values())


def test_the_tests_that_the_page_names_exist() -> None:
    """A renamed test takes its row along."""
    named = re.findall(r"`(\S+\.py)::(\w+)`", FAILURES)
    assert len(named) >= len(KNOWN)
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", (TESTS / path).read_text(), re.MULTILINE), f"{path}::{name}"
