"""How late a watch runs: it can be accepted, send events, and still tell of a cluster that was."""

from scaler.ports import Clock


class Lag:
    """How late a watch's events come, told from when new objects were created.

    The API server's clock may differ from ours, so the smallest delay ever seen counts as none.
    """

    def __init__(self) -> None:
        self.late_s = 0.0
        self._least_s: float | None = None

    def created(self, created_s: float | None, clock: Clock) -> None:
        """Take an object that was created at a time, and has just been told of."""
        if created_s is None:
            return
        delay_s = clock.now_s() - clock.from_wall(created_s)
        self._least_s = delay_s if self._least_s is None else min(self._least_s, delay_s)
        self.late_s = delay_s - self._least_s

    def caught_up(self) -> None:
        """Take a list: nothing is late any more."""
        self.late_s = 0.0
