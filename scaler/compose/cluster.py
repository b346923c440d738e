"""Connects a role to an API server: the live view, ScaledObjects as policy, ConfigMaps, the Lease and Events."""

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from functools import partial

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, ApiSettings, from_kubeconfig, in_cluster
from scaler.adapters.kubernetes.events import KubernetesNotices
from scaler.adapters.kubernetes.lease import LeaseLeadership, LeaseSettings, identity_of
from scaler.adapters.kubernetes.notices import PlanTransitions
from scaler.adapters.kubernetes.plan_maps import PlanStoreSettings
from scaler.adapters.kubernetes.plan_store import ConfigMapPlanStore
from scaler.adapters.kubernetes.view import KubernetesClusterView
from scaler.adapters.kubernetes.watch import Pace
from scaler.adapters.kubernetes.workloads import Workloads
from scaler.compose.outside import Cluster
from scaler.config.cluster import ConfigMapSection, KubernetesSection, LeaseSection
from scaler.config.live import observed_workload, settings_of
from scaler.config.load import timezones
from scaler.config.process import ProcessConfig
from scaler.config.validate import platform_of, policy_of
from scaler.core.plan import Plan
from scaler.core.values import WorkloadId
from scaler.ports import Clock, Leadership, Notice, PlanStore


class ApiSide:
    """One process's connection to the API server, and what is built on it. The stack closes all of it."""

    def __init__(self, config: ProcessConfig, clock: Clock, stack: AsyncExitStack) -> None:
        """Find out how to reach the server. ValueError where nothing says how."""
        self._config = config
        self._stack = stack
        self._section = (config.cluster and config.cluster.kubernetes) or KubernetesSection()
        self._name = os.environ.get("POD_NAME") or socket.gethostname()  # who we are, to people and to the Lease
        self._api = _connection(self._section, clock)
        self._close_with(self._api.close)

    def plan_store(self) -> tuple[PlanStore, Callable[[], int]]:
        """Return the store, and how to ask for the epoch of the plan in it."""
        section = (self._config.plan_store and self._config.plan_store.config_map) or ConfigMapSection()
        settings = PlanStoreSettings(section.namespace, self._name, section.name, section.shards)
        store = ConfigMapPlanStore(self._api, settings)
        self._close_with(store.close)
        return store, store.stored_epoch

    def leadership(
        self, section: LeaseSection, stored_epoch: Callable[[], int] | None
    ) -> tuple[Leadership, Callable[[], None]]:
        """Return the leadership, and how to take part in the election: who cannot decide must not hold the Lease."""
        settings = LeaseSettings(
            namespace=section.namespace,
            name=section.name,
            duration_s=section.duration_s,
            renew_deadline_s=section.renew_deadline_s,
            retry_period_s=section.retry_period_s,
        )
        identity = identity_of(self._name)
        leadership = LeaseLeadership(self._api, settings, identity, stored_epoch=stored_epoch or (lambda: 0))

        def take_part() -> None:
            self._close_with(leadership.stop)  # before all that was built until now: another may lead at once
            leadership.start()

        return leadership, take_part

    def cluster(self) -> Cluster:
        """Begin to watch."""
        config, section = self._config, self._section
        decision, platform = policy_of(config).decision, platform_of(config, timezones=timezones())
        workloads = Workloads(
            decision, partial(settings_of, platform=platform), partial(observed_workload, platform=platform)
        )
        pace = Pace(page_objects=section.page_size, watch_s=section.watch_timeout_s)
        view = KubernetesClusterView(
            self._api, workloads, namespaces=section.namespaces, other_targets=section.other_targets, pace=pace
        )
        self._close_with(view.close)
        view.start()
        notices = KubernetesNotices(self._api, self._name, subject_of=workloads.subject_of) if config.events else None
        transitions = PlanTransitions()

        def noticed(plan: Plan) -> tuple[Notice, ...]:
            return (*transitions.of(plan, stale_after_s=decision.stale_after_s), *workloads.take_notices())

        def targets() -> Mapping[WorkloadId, tuple[str, str]]:
            return {key: (target.kind, target.name) for key, target in workloads.claims().targets.items()}

        def refused() -> Collection[WorkloadId]:
            return workloads.claims().refused.keys()

        def out_of_sight() -> Collection[str]:
            return view.out_of_sight.keys()

        return Cluster(
            view=view,
            policies=workloads,
            notices=notices,
            noticed=noticed,
            ready=lambda: view.ready,
            problems=lambda: view.problems,
            explanations=lambda: view.explanations,
            refused=refused,
            out_of_sight=out_of_sight,
            figures=lambda: view.figures,
            targets=targets,
        )

    def _close_with(self, close: Callable[[], None]) -> None:
        """Call something that may block when the role ends, in a thread."""
        self._stack.push_async_callback(asyncio.to_thread, close)


def _connection(section: KubernetesSection, clock: Clock) -> ApiConnection:
    try:
        found = from_kubeconfig(section.kubeconfig, section.context) if section.kubeconfig else in_cluster()
    except ApiError as error:
        raise ValueError(f"cluster.kubernetes: {error}") from error
    settings = ApiSettings(connect_timeout_s=section.connect_timeout_s, total_timeout_s=section.request_timeout_s)
    return ApiConnection(found, clock, settings)
