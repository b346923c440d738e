"""Tells whether the KEDA of the cluster is recent enough, by the version that its CRD is labelled with.

The label tells what was installed with the CRD, and reading it takes the right to one object of the cluster. Where it
cannot be read, or is not there, nothing is known and nothing is said: it is no reason to alarm anybody.
"""

import threading
from typing import Any, Final

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, path
from scaler.adapters.kubernetes.objects import part, text
from scaler.config.keda_version import keda_version_note

CRD: Final = "scaledobjects.keda.sh"
LABEL: Final = "app.kubernetes.io/version"
REFRESH_S: Final = 3600.0
RETRY_S: Final = 60.0  # while the API server is out of reach
_WHERE: Final = path("apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions", CRD)


class KedaVersion:
    """Looks once an hour, in a thread of its own."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api
        self.problem = ""  # one line about a KEDA that is too old; empty where it is not, or nothing is known
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keda-version", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a call that hangs ends with its time-out, or as its connection is closed."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            wait_s = REFRESH_S
            try:
                self.problem = problem_of(self._api.get(_WHERE))
            except ApiError as error:
                if error.uncertain:  # what was known still holds
                    wait_s = RETRY_S
                else:
                    self.problem = ""
            self._stop.wait(self._api.clock.wall_duration(wait_s))


def problem_of(crd: dict[str, Any]) -> str:
    """Return what is to be said about a CRD's version; empty: nothing."""
    version = text(part(part(crd, "metadata"), "labels"), LABEL)
    note = keda_version_note(version) if version else None
    return f"CRD {CRD}: {note}" if note else ""
