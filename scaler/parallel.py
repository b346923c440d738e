"""Work on many series or settings at once: joblib over processes of this machine, Dask or Ray.

What is mapped is a plain function; where it runs is chosen here, outside of it. One numerical thread a worker: with
more they fight over the cores. Whatever is started is stopped, listens on loopback only and reports to nobody.
"""

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Any, Protocol

import joblib


class Backend(StrEnum):
    """Where the work runs."""

    LOKY = "loky"
    DASK = "dask"
    RAY = "ray"


class BackendError(Exception):
    """A backend cannot be used; the message says what would help."""


class Mapper(Protocol):
    """`map` for one iterable: results in the order of the items."""

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield the function's result for each item."""
        ...


# Of the extras that bring them.
_MODULES = {Backend.DASK: "distributed", Backend.RAY: "ray"}
_RAY_STORE_BYTES = 100 * 1024 * 1024  # results are small; the default is a third of the machine's memory


@contextmanager
def mapper(backend: Backend = Backend.LOKY, workers: int | None = None, address: str | None = None) -> Iterator[Mapper]:
    """Give a mapper over a backend; on the way out everything that was started is stopped.

    `workers` defaults to the cores that this process may use; with one, loky works in this process. `address` is that
    of a running Dask scheduler or Ray cluster; without it one is started on this machine. BackendError if the extra is
    not installed or the cluster cannot be reached.
    """
    count = workers or len(os.sched_getaffinity(0))
    module = _MODULES.get(backend)
    if module is not None and importlib.util.find_spec(module) is None:
        raise BackendError(f"backend {backend} is not installed: pip install 'headway[{backend}]'")
    with ExitStack() as stack:
        if backend is Backend.DASK:
            stack.enter_context(_dask(count, address))
        elif backend is Backend.RAY:
            stack.enter_context(_ray(count, address))
        options: dict[str, Any] = {"inner_max_num_threads": 1} if backend is Backend.LOKY and count > 1 else {}
        name = "sequential" if backend is Backend.LOKY and count == 1 else str(backend)
        stack.enter_context(joblib.parallel_config(backend=name, n_jobs=count, **options))
        # Ray's backend hands over all results at the end; the others one by one, as they come.
        way = "list" if backend is Backend.RAY else "generator"

        def over(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            yield from joblib.Parallel(return_as=way)(joblib.delayed(function)(item) for item in items)

        try:
            yield over
        finally:
            if backend is Backend.LOKY and count > 1:
                joblib.externals.loky.get_reusable_executor().shutdown(wait=True)


@contextmanager
def _dask(workers: int, address: str | None) -> Iterator[None]:
    from distributed import Client, LocalCluster  # noqa: PLC0415 -- of an extra

    try:
        if address is not None:
            with Client(address, timeout="10s", set_as_default=True):  # type: ignore[no-untyped-call]
                yield
            return
        with (
            LocalCluster(  # type: ignore[no-untyped-call]  # it ships no types
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                worker_dashboard_address=None,
            ) as cluster,
            Client(cluster),  # type: ignore[no-untyped-call]
        ):
            yield
    except OSError as error:
        raise BackendError(f"the Dask scheduler at {address or 'this machine'} cannot be reached: {error}") from error


@contextmanager
def _ray(workers: int, address: str | None) -> Iterator[None]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # noqa: PLC0415 -- of an extra
    from ray.util.joblib import register_ray  # noqa: PLC0415

    options: dict[str, Any] = {"num_cpus": workers, "object_store_memory": _RAY_STORE_BYTES, "include_dashboard": False}
    if address is not None:
        options = {"address": address}
    try:
        ray.init(configure_logging=False, log_to_driver=False, **options)
    except (ConnectionError, RuntimeError) as error:
        raise BackendError(f"Ray at {address or 'this machine'} cannot be used: {error}") from error
    try:
        register_ray()  # type: ignore[no-untyped-call]
        yield
    finally:
        ray.shutdown()


def in_parts(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Return items in parts of at most `size`, in order; ValueError for a size below 1."""
    if size < 1:
        raise ValueError(f"size must be >= 1, was {size}")
    return [items[first : first + size] for first in range(0, len(items), size)]
