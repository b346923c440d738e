"""Leadership where there is nobody to share it with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoleLeadership:
    """The only controller on its plan store, as on one machine: epoch 0, not elected. A cluster has a Lease instead."""

    epoch: int = 0
    leading: bool = True
