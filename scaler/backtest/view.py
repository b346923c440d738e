"""The fleet as the cluster, and the gateway in front of it, know it: frozen values."""

from dataclasses import dataclass

from scaler.backtest.pods import Phase


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as the cluster knows it."""

    name: str
    phase: Phase
    created_s: float
    ready_s: float  # since when it is Ready, or when it will be

    @property
    def ready(self) -> bool:
        """Return whether the pod is Ready and not being deleted."""
        return self.phase is Phase.READY


@dataclass(frozen=True, slots=True)
class FleetView:
    """The fleet as the cluster knows it, with what a gateway knows of its queue."""

    at_s: float
    spec: int  # replicas that the scale target was told
    pods: tuple[PodView, ...]  # in order of creation; those that are gone are not there
    arrived: int  # requests since the start
    waiting: int
    running: int
    finished: int
    lost: int  # too long for the model, or gone with an engine

    @property
    def ready(self) -> int:
        """Return how many pods serve."""
        return sum(pod.ready for pod in self.pods)

    @property
    def replicas(self) -> int:
        """Return the scale target's status.replicas: pods that are not being deleted."""
        return sum(pod.phase is not Phase.DRAINING for pod in self.pods)
