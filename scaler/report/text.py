"""How numbers, times and names from outside are written for a person, on a terminal and on a page alike."""

from decimal import ROUND_FLOOR, Decimal


def printable(text: str) -> str:
    """Escape control and invisible characters: the text came from outside, and a terminal would act upon them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def clock(at_s: float) -> str:
    """Write seconds since the start as `h:mm:ss`."""
    minutes, seconds = divmod(max(0, round(at_s)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def percent(share: float, *, beside: float | None = None) -> str:
    """Write a share of 0..1 as a percentage, never rounded up: 0.98999 is `98.99 %`.

    It has at most two decimals, or as many as the share that it stands `beside`; so a share just below 0.99999 is
    never written like it.
    """
    decimals = max(2, 0 if beside is None else _decimals(_percentage(beside)))
    floored = _percentage(share).quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR)
    return f"{floored.normalize():f} %"


def exact_percent(share: float) -> str:
    """Write a share of 0..1 that somebody stated, an objective, with all its decimals: 0.99999 is `99.999 %`."""
    return f"{_percentage(share).normalize():f} %"


def _percentage(share: float) -> Decimal:
    return Decimal(repr(share)) * 100  # by its shortest decimal form: as a binary fraction, 0.57 is 0.56999...


def _decimals(value: Decimal) -> int:
    exponent = value.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def quantity(value: float | None) -> str:
    """Write a number to three figures, with separators from a thousand on: 0.0123, 4.57, 312, 12,300."""
    if value is None:
        return "unknown"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
