"""What Headway says on KEDA's wire: one metric, its target, and how a number of replicas becomes its value."""

import math
from functools import lru_cache
from typing import Final

from external_scaler_proto import externalscaler_pb2 as pb

SERVICE: Final = pb.DESCRIPTOR.services_by_name["ExternalScaler"].full_name

# Lower case and a valid URL segment: older versions of KEDA ask in lower case, and the HPA asks through a URL.
METRIC_NAME: Final = "headway-replicas"

# A target of 1 with AverageValue makes the value the number of replicas. It never changes: KEDA below 2.21 does not
# carry a changed target into the HPA.
SPEC: Final = pb.GetMetricSpecResponse(
    metricSpecs=[pb.MetricSpec(metricName=METRIC_NAME, targetSize=1, targetSizeFloat=1.0)]
)
ACTIVE: Final = pb.IsActiveResponse(result=True)
INACTIVE: Final = pb.IsActiveResponse(result=False)

# The HPA counts in thousandths in 64 bits; beyond this a value wraps around to a meaningless one.
MAX_VALUE: Final = 9.2e15


def is_metric(name: str) -> bool:
    """Return whether KEDA means Headway's metric; it has asked in more than one casing."""
    return name.lower() == METRIC_NAME


@lru_cache(maxsize=4096)  # there are few distinct numbers, and making the messages is half the cost of an answer
def metric_response(replicas: float) -> pb.GetMetricsResponse:
    """Return the one value that asks for so many replicas.

    The float is what KEDA reads; before 2.17 it reads the integer, which is rounded up. ValueError for what KEDA would
    turn into zero or into nonsense: not finite, negative, too large. The response is shared: not to be changed.
    """
    if not 0 <= replicas < MAX_VALUE:  # also refuses NaN
        raise ValueError(f"replicas must be >= 0 and < {MAX_VALUE:g}, was {replicas}")
    value = pb.MetricValue(metricName=METRIC_NAME, metricValue=math.ceil(replicas), metricValueFloat=float(replicas))
    return pb.GetMetricsResponse(metricValues=[value])
