"""Durations as people write them: `500ms`, `15s`, `4m`, `1h30m`, `14d`; a bare number is seconds."""

import re
from decimal import Decimal

DURATION_FORM = "a duration such as 500ms, 15s, 4m, 1h30m or 14d (a bare number is seconds)"
MAX_DURATION_S = 36_500 * 86_400.0  # a century: beyond it a duration is a slip, and arithmetic on it may overflow

_UNITS_S = {"d": Decimal(86_400), "h": Decimal(3_600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
# Units fall from left to right and each occurs once, so that `30m1h` is questioned rather than guessed at.
_PARTS = re.compile("".join(f"(?:({_NUMBER}){unit})?" for unit in _UNITS_S))
_BARE = re.compile(_NUMBER)


def parse_duration(text: str | float) -> float:
    """Return a duration in seconds, from its text or from a number of seconds; never negative.

    ValueError with the value and the allowed form for anything else.
    """
    seconds = _seconds(text)
    if seconds is None or not 0 <= seconds <= MAX_DURATION_S:
        raise ValueError(f"must be {DURATION_FORM}, was {str(text)[:40]!r}")
    return float(seconds)


def _seconds(text: str | float) -> Decimal | float | None:
    if isinstance(text, bool):
        return None
    if isinstance(text, int | float):
        return text
    text = text.strip()
    if _BARE.fullmatch(text):
        return Decimal(text)
    parts = _PARTS.fullmatch(text)
    if not (text and parts):
        return None
    # Decimal, so that `0.1s` and `100ms` are the same float.
    return sum((Decimal(n) * unit for n, unit in zip(parts.groups(), _UNITS_S.values(), strict=True) if n), Decimal(0))


def format_duration(seconds: float) -> str:
    """Write a duration of at least 0 seconds in its shortest usual form, to the millisecond: 5400 is `1h30m`."""
    if not 0 <= seconds <= MAX_DURATION_S:
        raise ValueError(f"seconds must be 0 .. {MAX_DURATION_S:.0f}, was {seconds!r}")
    left_ms = round(seconds * 1000)
    parts = []
    for unit, size_s in _UNITS_S.items():
        count, left_ms = divmod(left_ms, int(size_s * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
