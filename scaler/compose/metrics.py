"""Builds the metrics sources and the observer over them."""

from contextlib import AsyncExitStack
from typing import Final

from scaler.adapters.observer import CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.replay import ReplaySource
from scaler.adapters.scrape import ScrapeSettings, ScrapeSource
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.config.models import DecisionSettings
from scaler.config.process import GpuMetricsSection, MetricsSection, ProcessConfig, PrometheusSection
from scaler.config.validate import policy_of
from scaler.ports import Clock, ClusterView, MetricsSource

_LOOKBACK: Final = 4 / 3  # of the time after which a sample is stale: one that is late is seen as stale, not as missing


def source_of(section: MetricsSection, clock: Clock, decision: DecisionSettings) -> MetricsSource:
    """Return the metrics source that a section describes."""
    if section.prometheus is not None:
        return PrometheusSource(_prometheus_settings(section.prometheus, decision), clock)
    if (scrape := section.scrape) is not None and scrape.targets_file is not None:
        return ScrapeSource(
            ScrapeSettings(scrape.targets_file, scrape.timeout_s, scrape.max_bytes, scrape.concurrency), clock
        )
    if section.replay is not None:
        return ReplaySource(section.replay.file)
    raise ValueError("metrics must name a source")


def observer_of(config: ProcessConfig, view: ClusterView, clock: Clock, stack: AsyncExitStack) -> CollectingObserver:
    """Return the observer of a controller over its cluster view; `stack` closes what it opens."""
    if config.metrics is None:
        raise ValueError("a controller needs metrics")
    decision = policy_of(config).decision
    source = source_of(config.metrics, clock, decision)
    stack.push_async_callback(source.close)
    gpu_source = _gpu_source(config.gpu_metrics, source, clock, decision)
    if gpu_source is not None and gpu_source is not source:
        stack.push_async_callback(gpu_source.close)
    queues = QueueSettings(config.broker.vhost, config.broker.prefetch)
    return CollectingObserver(source, view, clock, decision, gpu_source=gpu_source, queues=queues)


def _gpu_source(
    section: GpuMetricsSection | None, source: MetricsSource, clock: Clock, decision: DecisionSettings
) -> MetricsSource | None:
    if section is None:
        return None
    return source if section.same else source_of(section, clock, decision)


def _prometheus_settings(section: PrometheusSection, decision: DecisionSettings) -> PrometheusSettings:
    header = section.tenant_header
    return PrometheusSettings(
        url=section.url,
        connect_timeout_s=section.connect_timeout_s,
        read_timeout_s=section.timeout_s,
        total_timeout_s=section.timeout_s,
        max_body_bytes=section.max_bytes,
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
