"""Builds the metrics sources and the observer over them."""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Final

from scaler.adapters.aggregated import AggregatedActivity, AggregatedReplicas, AggregationSettings
from scaler.adapters.asking import Server
from scaler.adapters.observer import Beside, CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.replay import ReplaySource
from scaler.adapters.scrape import ScrapeSettings, ScrapeSource
from scaler.adapters.signals.gateways import GatewayCollector
from scaler.adapters.signals.presets import ENGINES
from scaler.adapters.signals.profiles import ProfileCollector
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.adapters.watched_targets import WatchedTargets
from scaler.compose.outside import Cluster
from scaler.config.models import DecisionSettings, Policy
from scaler.config.process import GpuMetricsSection, MetricsSection, ProcessConfig, PrometheusSection
from scaler.config.profiles import QueryProfile
from scaler.config.validate import policy_of
from scaler.core.values import WorkloadId
from scaler.ports import Clock, MetricsSource, PolicySource

_USUAL_PATH: Final = "/metrics"
_LOOKBACK: Final = 4 / 3  # of the time after which a sample is stale: one that is late is seen as stale, not as missing


def source_of(
    section: MetricsSection, clock: Clock, decision: DecisionSettings, cluster: Cluster | None = None
) -> MetricsSource:
    """Return the metrics source that a section describes; `cluster` tells the pods where those are scraped."""
    if section.prometheus is not None:
        return PrometheusSource(prometheus_settings(section.prometheus, decision), clock)
    if (scrape := section.scrape) is not None:
        bounds = ScrapeSettings(scrape.targets_file, scrape.timeout_s, scrape.max_bytes, scrape.concurrency)
        targets = (
            WatchedTargets(cluster.view, scrape.ports, _Paths(cluster.policies).of)
            if scrape.pods and cluster is not None
            else None
        )
        return ScrapeSource(bounds, clock, targets)
    if section.replay is not None:
        return ReplaySource(section.replay.file)
    raise ValueError("metrics must name a source")


class _Paths:
    """Where the engine of each workload serves its metrics."""

    def __init__(self, policies: PolicySource) -> None:
        self._policies = policies
        self._policy: Policy | None = None
        self._engines: Mapping[WorkloadId, str] = {}

    def of(self, workload: WorkloadId) -> str:
        """Return the path; the usual one for an engine that is not known."""
        policy = self._policies.current()
        if policy is not self._policy:
            self._policy = policy
            self._engines = {WorkloadId(w.namespace, w.name): w.engine for w in policy.workloads}
        preset = ENGINES.get(self._engines.get(workload, ""))
        return preset.path if preset else _USUAL_PATH


def observer_of(config: ProcessConfig, cluster: Cluster, clock: Clock, stack: AsyncExitStack) -> CollectingObserver:
    """Return the observer of a controller over its cluster; `stack` closes what it opens."""
    if config.metrics is None:
        raise ValueError("a controller needs metrics")
    decision = policy_of(config).decision
    engines = _Metrics(config.metrics, clock, decision, stack, cluster)
    gpus = _gpu_metrics(config.gpu_metrics, engines, clock, decision, stack)
    return CollectingObserver(
        engines.source,
        cluster.view,
        clock,
        decision,
        replicas=engines.replicas(),
        gpu_source=gpus.source if gpus else None,
        activity=gpus.activity() if gpus else None,
        queues=QueueSettings(config.broker.vhost, config.broker.prefetch),
        beside=engines.beside(config.profiles),
    )


class _Metrics:
    """One place where metrics come from, and how they are read there: aggregated by a server, or sample by sample."""

    def __init__(
        self,
        section: MetricsSection,
        clock: Clock,
        decision: DecisionSettings,
        stack: AsyncExitStack,
        cluster: Cluster | None = None,
    ) -> None:
        self._clock = clock
        self._decision = decision
        self.source = source_of(section, clock, decision, cluster)
        stack.push_async_callback(self.source.close)
        self._server: Server | None = None
        if isinstance(self.source, PrometheusSource) and section.prometheus is not None:
            self._server = Server(self.source, section.prometheus.timeout_s)
            self._settings = AggregationSettings(max_rows=section.prometheus.max_series)

    def replicas(self) -> AggregatedReplicas | None:
        """Return the reader of replicas where the server aggregates."""
        if self._server is None:
            return None
        return AggregatedReplicas(self._server, self._clock, self._decision, self._settings)

    def activity(self) -> AggregatedActivity | None:
        """Return the reader of GPU activity where the server aggregates."""
        if self._server is None:
            return None
        return AggregatedActivity(self._server, self._clock, self._decision, self._settings)

    def beside(self, profiles: Iterable[QueryProfile]) -> Beside:
        """Return the readers of gateways and of query profiles; both need a server that evaluates PromQL."""
        if not isinstance(self.source, PrometheusSource):
            return Beside()
        return Beside(
            GatewayCollector(self.source, self._decision), ProfileCollector(self.source, self._decision, profiles)
        )


def _gpu_metrics(
    section: GpuMetricsSection | None,
    engines: _Metrics,
    clock: Clock,
    decision: DecisionSettings,
    stack: AsyncExitStack,
) -> _Metrics | None:
    if section is None:
        return None
    return engines if section.same else _Metrics(section, clock, decision, stack)


def prometheus_settings(section: PrometheusSection, decision: DecisionSettings) -> PrometheusSettings:
    """Return how to speak to the Prometheus of a section."""
    header = section.tenant_header
    return PrometheusSettings(
        url=section.url,
        connect_timeout_s=section.connect_timeout_s,
        read_timeout_s=section.timeout_s,
        total_timeout_s=section.timeout_s,
        max_body_bytes=section.max_bytes,
        connections=section.concurrency,
        lookback_s=_LOOKBACK * decision.stale_after_s,
        retries=section.retries,
        ca_file=section.ca_file,
        cert_file=section.cert_file,
        key_file=section.key_file,
        bearer_token_file=section.bearer_token_file,
        username=section.username,
        password_file=section.password_file,
        tenant=None if header is None else header.value,
        tenant_header="X-Scope-OrgID" if header is None else header.name,
    )
