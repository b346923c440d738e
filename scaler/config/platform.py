"""What the platform says that every workload is read against: who is asked, what is granted, whose mode is fixed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scaler.config.grants import Grants
from scaler.config.models import Mode

ANNOTATIONS = "headway.dev/"  # on a ScaledObject or an HPA; `headway.dev/mode: observe` makes it an observed workload
KEDA_ANNOTATIONS = "autoscaling.keda.sh/"  # with them KEDA is paused; they change no generation


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform's word.

    `addresses` are the scalerAddress values that mean Headway; when empty every external trigger counts as Headway's.
    `grants` None: they are not known, as in a check of manifests alone; then what is named is taken as granted.
    `timezones` are the IANA names that exist, None to check their form only.
    """

    addresses: frozenset[str] = frozenset()
    grants: Grants | None = None
    modes: Mapping[tuple[str, str], Mode] = field(default_factory=dict)  # by namespace and name; these rule
    timezones: Collection[str] | None = None
