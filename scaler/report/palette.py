"""The colours of a report by role, for light and for dark: one drawing serves both through CSS variables."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tone:
    """One role's colour on a light and on a dark page, as `#rrggbb`. Light ones are unique: they name the role."""

    light: str
    dark: str


TONES: Mapping[str, Tone] = {
    "page": Tone("#ffffff", "#12161c"),
    "panel": Tone("#f5f7fa", "#1b2129"),
    "ink": Tone("#1b2430", "#e4e9f0"),
    "quiet": Tone("#56616f", "#9fabb9"),
    "rule": Tone("#d9dfe7", "#303945"),
    "demand": Tone("#0a5fbd", "#6fb4ff"),
    "supply": Tone("#0d7a63", "#43c6a8"),
    "pending": Tone("#a85a00", "#f0a548"),
    "breach": Tone("#c2261f", "#ff8077"),
    "cache": Tone("#7a3db3", "#c69bff"),
}


def variables(*, dark: bool) -> str:
    """Return the CSS declarations of one palette."""
    return "".join(f"--{role}:{tone.dark if dark else tone.light};" for role, tone in TONES.items())


def light(role: str) -> str:
    """Return the colour to draw a role in."""
    return TONES[role].light


def variable_of(colour: str) -> str:
    """Return the CSS value for a colour that was drawn; KeyError for one that is no role's, so that none slips by."""
    return _VARIABLES[colour.lower()]


_VARIABLES: Mapping[str, str] = {tone.light: f"var(--{role})" for role, tone in TONES.items()}
