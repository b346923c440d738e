"""What `headway forecast` and `headway evaluate` write as JSON. Keys are a contract; a missing figure is null."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Quantile = Literal["0.5", "0.9", "0.99"]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", serialize_by_alias=True, json_schema_serialization_defaults_required=True
    )


class SeriesScore(_Part):
    """One model on one series, horizon and target."""

    trace: str
    model: str
    horizon_s: int
    group: str
    target: Literal["point", "window_max"]
    mase: float | None = Field(description="absolute error of the median over that of the daily seasonal naive before")
    pinball: dict[Quantile, float | None] = Field(description="in the unit of the series, per second")
    coverage: dict[Literal["0.9", "0.99"], float | None]
    fit_ms: float | None
    predict_ms: float | None = Field(description="of one origin")
    origins: int


class Summary(_Part):
    """One model over the series of a group: geometric means of ratios to `seasonal-naive`, calibrated the same way."""

    model: str
    group: str
    horizon_s: int
    target: Literal["point", "window_max"]
    series: int
    mase_ratio: float | None
    pinball_ratio: dict[Quantile, float | None]
    coverage: dict[Literal["0.9", "0.99"], float | None] = Field(description="pooled over the origins of the series")


class EvaluateDocument(_Part):
    """`headway evaluate --json`."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    series: list[SeriesScore]
    summary: list[Summary]


class ForecastPoint(_Part):
    """Quantiles at one horizon, in the unit of the series, per second."""

    horizon_s: int
    at: str = Field(description="the time that it is for, ISO 8601, UTC")
    point: dict[str, float]
    window_max: dict[str, float] = Field(description="of the largest rate from the origin to the horizon")


class ForecastDocument(_Part):
    """`headway forecast --json`."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    trace: str
    at: str = Field(description="the origin: the end of the trace")
    unit: str
    level: float | None = Field(description="the present rate")
    forecasts: list[ForecastPoint]
    weights: dict[str, float] = Field(description="of the experts at 0.9 and the longest horizon")
    absent: str | None = Field(description="why there is no forecast")
    ready_at: str | None = Field(description="from when on there will be one")
