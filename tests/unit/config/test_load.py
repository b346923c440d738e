from pathlib import Path

import pytest

from scaler.config.address import Address
from scaler.config.load import MAX_FILE_BYTES, ConfigErrors, load_config, policy_of
from scaler.config.models import DecisionSettings, Mode, Policy, RateLimit, WorkloadSettings
from scaler.config.process import ProcessConfig, Role
from scaler.config.validate import platform_of

MINIMAL = """\
planStore: {file: run/plan.json}
metrics: {scrape: {targetsFile: targets.json}}
cluster: {file: /var/lib/cluster.json}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "h.yaml"


def problems_in(path: Path, text: str, *, role: Role | None = None) -> list[str]:
    """Return the problems of a configuration, each without the folder that it is in."""
    path.write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        load_config(path, role=role)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(problem).removeprefix(f"{path.parent}/") for problem in caught.value.problems]


def test_an_empty_file_is_all_defaults(path: Path) -> None:
    """Every key has a default; what a role cannot do without is asked for by the role."""
    path.write_text("")
    assert load_config(path) == ProcessConfig()
    assert load_config(path).scaler.grpc_address == ":6000"
    assert load_config(path).controller.http_address == ":8080"


def test_durations_are_seconds_and_paths_start_from_the_file(path: Path) -> None:
    """Durations are read to seconds; a relative path is taken from the file's folder, an absolute one as it is."""
    path.write_text(MINIMAL + "controller: {tick: 5s, checkpoint: state.json}\nscaler: {planTtl: 2m}\n")
    config = load_config(path, role=Role.CONTROLLER)
    assert config.controller.tick_s == 5.0
    assert config.scaler.plan_ttl_s == 120.0
    assert config.controller.checkpoint == path.parent / "state.json"
    assert config.plan_store is not None
    assert config.plan_store.file == path.parent / "run" / "plan.json"
    assert config.cluster is not None
    assert config.cluster.file == Path("/var/lib/cluster.json")


def test_the_policy_is_what_the_file_says(path: Path) -> None:
    """Platform settings and workloads become the policy; the file's mode rules, bounds are intersected."""
    path.write_text(
        """\
decision:
  hold: 10m
  staleAfter: 45
  rate: {upShare: 1.0, downReplicas: null, period: 2m}
workloads:
  - namespace: demo
    name: chat
    minReplicas: 2
    maxReplicas: 40
    mode: observe
    metadata: {slo: 500ms, objective: 0.999, slotsPerReplica: 64, maxReplicas: "30", mode: auto, other: true}
  - {namespace: other, name: chat}
"""
    )
    assert policy_of(load_config(path)) == Policy(
        decision=DecisionSettings(
            hold_s=600.0, stale_after_s=45.0, rate=RateLimit(up_share=1.0, down_replicas=None, period_s=120.0)
        ),
        workloads=(
            WorkloadSettings(
                namespace="demo",
                name="chat",
                slo_s=0.5,
                objective=0.999,
                slots_per_replica=64,
                mode=Mode.OBSERVE,
                min_replicas=2,
                max_replicas=30,
            ),
            WorkloadSettings(namespace="other", name="chat"),
        ),
    )


def test_everything_wrong_is_reported_at_once_with_its_line(path: Path) -> None:
    """Text, keys, ranges, metadata, twins and what the role needs: one error, in the order of the lines."""
    text = """\
decision:
  hold: 5x
  holdd: 3
  rate: {downShare: 2}
controller:
  adminAddress: 0.0.0.0:8081
  tick: 0s
metrics:
  prometheus:
    url: http://user:hunter2@prometheus:9090
    password: hunter2
    username: me
cluster: [1]
workloads:
  - namespace: demo
    name: chat
    metadata:
      slo: abc
      engine: vlm
  - namespace: demo
    name: chat
    name: chat
    minReplicas: 5
    metadata:
      maxReplicas: 3
      kvTarget: [1]
      timezone: Europe/Berlinn
  - name: Chat
    maxReplicas: 0
"""
    assert problems_in(path, text, role=Role.CONTROLLER) == [
        "h.yaml:1: planStore: must be given for headway controller",
        "h.yaml:2: decision.hold: must be a duration >= 0 such as 500ms, 15s, 4m, 1h30m or 14d, was '5x'",
        "h.yaml:3: decision.holdd: is not a known key; did you mean hold?",
        "h.yaml:4: decision.rate.downShare: must be a number > 0 and <= 1, was 2",
        "h.yaml:6: controller.adminAddress: must be a loopback address such as 127.0.0.1:8081, was '0.0.0.0:8081'",
        "h.yaml:7: controller.tick: must be a duration > 0 such as 500ms, 15s, 4m, 1h30m or 14d, was '0s'",
        "h.yaml:9: metrics.prometheus: must give username and passwordFile together, or neither",
        (
            "h.yaml:10: metrics.prometheus.url: must not hold credentials: use username and passwordFile, "
            "or bearerTokenFile"
        ),
        "h.yaml:11: metrics.prometheus.password: is not a known key; did you mean passwordFile?",
        "h.yaml:13: cluster: must be a mapping, was a list",
        "h.yaml:18: workloads[0].metadata.slo: must be a duration > 0 such as 500ms, 15s, 4m, 1h30m or 14d, was 'abc'",
        (
            "h.yaml:19: workloads[0].metadata.engine: must be one of llamacpp, nim, rabbitmq, rayserve, sglang, tgi, "
            "triton, trtllm, vllm or profile:NAME, was 'vlm'; did you mean vllm?"
        ),
        "h.yaml:21: workloads[1].name: must be unique within its namespace, was chat as in workloads[0]",
        "h.yaml:22: workloads[1].name: must be given once, was given on line 21 too",
        "h.yaml:25: workloads[1].metadata.maxReplicas: must be >= the ScaledObject's minReplicaCount (5), was 3",
        "h.yaml:26: workloads[1].metadata.kvTarget: must be text, was a list",
        (
            "h.yaml:27: workloads[1].metadata.timezone: must be an IANA time zone such as Europe/Berlin, "
            "was 'Europe/Berlinn'"
        ),
        "h.yaml:28: workloads[2].namespace: must be given",
        "h.yaml:28: workloads[2].name: must be a name: at most 54 of a-z, 0-9, '-' and '.', was 'Chat'",
        "h.yaml:29: workloads[2].maxReplicas: must be a whole number 1 .. 1000000, was 0",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1\nb: 2", "h.yaml:2: must be YAML"),
        ("decision:\n\thold: 1s", "h.yaml:2: must be YAML"),
        ("- 1", "h.yaml:1: must be a mapping, was a list"),
        ("---\n{}\n---\n{}", "h.yaml:4: must be one document, had several"),
        ("clock: {speed: 10}", "h.yaml:1: clock: must give wallOrigin and origin when speed is not 1"),
        ("clock: {origin: 1}", "h.yaml:1: clock: must give wallOrigin and origin together"),
        ("metrics: {}", "h.yaml:1: metrics: must give exactly one of prometheus, scrape, replay, was none"),
        ("gpuMetrics:\n  same: false", "h.yaml:1: gpuMetrics: must give exactly one of"),
        (
            "metrics:\n  scrape: {targetsFile: a}\n  replay: {file: b}",
            "h.yaml:1: metrics: must give exactly one of prometheus, scrape, replay, was scrape and replay",
        ),
        ("metrics: {prometheus: {url: 'ftp://x'}}", "h.yaml:1: metrics.prometheus.url: must be an http://"),
        (
            "metrics:\n  prometheus:\n    url: http://x\n    username: me",
            "h.yaml:2: metrics.prometheus: must give username and passwordFile together, or neither",
        ),
        ("scaler: {tls: {certFile: a}}", "h.yaml:1: scaler.tls.keyFile: must be given"),
        (
            "scaler: {tls: {certFile: a, keyFile: b, allowedClientNames: [keda]}}",
            "h.yaml:1: scaler.tls: must give clientCaFile with allowedClientNames",
        ),
        (
            "scaler: {tls: {certFile: a, keyFile: b, clientCaFile: c}}",
            "h.yaml:1: scaler.tls: must give allowedClientNames with clientCaFile",
        ),
        ("planStore: {}", "h.yaml:1: planStore: must give exactly one of file, configMap, was none"),
        (
            "planStore: {file: a, configMap: {shards: 0}}",
            "h.yaml:1: planStore.configMap.shards: must be a whole number 1 .. 64, was 0",
        ),
        ("planStore: {configMap: {name: Plan}}", "h.yaml:1: planStore.configMap.name: must be the name of an object"),
        ("cluster: {}", "h.yaml:1: cluster: must give exactly one of file, kubernetes, was none"),
        (
            "cluster: {file: a, kubernetes: {pageSize: 1}}",
            "h.yaml:1: cluster: must give exactly one of file, kubernetes",
        ),
        (
            "cluster: {kubernetes: {context: c}}\nscaler: {knownAs: [a]}",
            "h.yaml:1: cluster.kubernetes: must give kubeconfig with context",
        ),
        (
            "cluster: {kubernetes: {namespaces: [Team]}}",
            "h.yaml:1: cluster.kubernetes.namespaces[0]: must be a namespace: at most 63 of a-z, 0-9 and '-'",
        ),
        (
            "cluster: {kubernetes: {pageSise: 5}}",
            "h.yaml:1: cluster.kubernetes.pageSise: is not a known key; did you mean",
        ),
        ("cluster:\n  kubernetes: {}", "h.yaml:1: scaler.knownAs: must be given with cluster.kubernetes"),
        ("leadership: {lease: {duration: [5s]}}", "h.yaml:1: leadership.lease.duration: "),
        (
            "leadership: {lease: {duration: 5s}}",
            "h.yaml:1: leadership.lease.renewDeadline: must be < duration (5s), was 10s",
        ),
        (
            "leadership:\n  lease:\n    retryPeriod: 9s",
            "h.yaml:3: leadership.lease.retryPeriod: must be < renewDeadline / 1.2 (8.33s), was 9s",
        ),
        ("leadership: {lease: {retryPeriod: 0}}", "h.yaml:1: leadership.lease.retryPeriod: must be a duration > 0"),
        ("events: true", "h.yaml:1: events: must be false without cluster.kubernetes"),
        (
            """\
metrics: {scrape: {targetsFile: t}}
sources: [{name: a, namespaces: [d], route: {gateway: epp, labels: {namespace: d, inference_pool: p}}}]""",
            "h.yaml:2: sources[0].route: must be left out without metrics.prometheus: nothing else evaluates",
        ),
        (
            """\
metrics: {replay: {file: r}}
profiles: [{name: a, kind: pod, namespaces: [d], signals: {running: {query: x}}}]""",
            "h.yaml:2: profiles[0]: must be left out without metrics.prometheus",
        ),
        ("history: {folder: h}", "h.yaml:1: history: must be left out without metrics.prometheus"),
        (
            "metrics: {scrape: {timeout: 1s}}",
            "h.yaml:1: metrics.scrape: must give exactly one of targetsFile, pods, was none",
        ),
        ("metrics: {scrape: {pods: true}}", "h.yaml:1: metrics.scrape.pods: must be false without cluster.kubernetes"),
        (
            "metrics: {scrape: {targetsFile: t, ports: [80]}}",
            "h.yaml:1: metrics.scrape.ports: must be left out without pods: true",
        ),
        ("gpuMetrics: {scrape: {pods: true}}", "h.yaml:1: gpuMetrics.scrape.pods: must be left out for gpuMetrics"),
        (
            "metrics: {prometheus: {url: 'http://x', concurrency: 0}}",
            "h.yaml:1: metrics.prometheus.concurrency: must be a whole number 1 .. 64, was 0",
        ),
        ("profiles: 1", "h.yaml:1: profiles: must be a list of at most 100 profiles, was 1"),
        ("sources:\n  - name: a b", "h.yaml:2: sources[0].name: must be a name: at most 253 characters without spaces"),
        ("sources: [{name: a, namespaces: []}]", "h.yaml:1: sources[0].namespaces: must be a list of at least one"),
        (
            "sources: [{name: a, namespaces: [b]}]",
            "h.yaml:1: sources[0]: must give exactly one of queue, route, profile, was none",
        ),
        (
            "sources: [{name: a, namespaces: [b], queue: {queue: q, share: 2}}]",
            "h.yaml:1: sources[0].queue.share: must be a number > 0 and <= 1, was 2",
        ),
        (
            "sources:\n  - name: a\n    namespaces: [b]\n    route: {gateway: istoi, labels: {}}",
            "h.yaml:4: sources[0].route.gateway: must be one of istio, envoy, epp, was 'istoi'; did you mean istio?",
        ),
        (
            "sources:\n  - name: a\n    namespaces: [b]\n    route:\n      gateway: envoy\n      labels: {namespac: x}",
            "h.yaml:6: sources[0].route.labels.namespac: must be namespace and envoy_cluster_name with gateway",
        ),
        (
            "sources: [{name: a, namespaces: [b], queue: {queue: q}}, {name: a, namespaces: ['*'], queue: {queue: r}}]",
            "h.yaml:1: sources[1].namespaces[0]: must not meet b of sources[0], which has the same name, was *",
        ),
        ("planStore: {file: ''}", "h.yaml:1: planStore.file: must be a path, was ''"),
        ("scaler: {grpcAddress: '6000'}", "h.yaml:1: scaler.grpcAddress: must be HOST:PORT, :PORT"),
        ("scaler: {grpcAddress: ':70000'}", "h.yaml:1: scaler.grpcAddress: must be HOST:PORT, :PORT"),
        ("decision: {hold: .inf}", "h.yaml:1: decision.hold: must be a duration >= 0"),
        (
            "decision: {utilisationTarget: .nan}",
            "h.yaml:1: decision.utilisationTarget: must be a number 0.05 .. 1",
        ),
        ("workloads: {}", "h.yaml:1: workloads: must be a list, was a mapping"),
        ("workloads: [1]", "h.yaml:1: workloads[0]: must be a mapping, was 1"),
        ("a: &a [*a]", "h.yaml:1: must be YAML: a document may have at most 64 levels"),
        ("a: !!python/object/apply:os.getcwd []", "h.yaml:1: a: is not a known key"),
    ],
)
def test_each_kind_of_mistake_is_named(path: Path, text: str, problem: str) -> None:
    """A mistake is reported with file, line, key and what would be right."""
    assert any(found.startswith(problem) for found in problems_in(path, text)), problems_in(path, text)


def test_what_several_keys_break_together_is_reported_with_the_rest(path: Path) -> None:
    """A rule between keys is looked at whatever is wrong within them, at every depth, and said once."""
    text = """\
clock: {speed: fast, origin: 1}
metrics:
  prometheus: {username: u, bearerTokenFile: t, certFile: c}
  scrape: {targetsFile: t}
scaler:
  tls: {certFile: 1, clientCaFile: c, allowedClientNames: []}
"""
    assert problems_in(path, text) == [
        "h.yaml:1: clock.speed: must be a number > 0 and <= 10000, was 'fast'",
        "h.yaml:1: clock: must give wallOrigin and origin together, or neither",
        "h.yaml:2: metrics: must give exactly one of prometheus, scrape, replay, was prometheus and scrape",
        "h.yaml:3: metrics.prometheus.url: must be given",
        "h.yaml:3: metrics.prometheus: must give username and passwordFile together, or neither",
        "h.yaml:3: metrics.prometheus: must give certFile and keyFile together, or neither",
        "h.yaml:3: metrics.prometheus: must give bearerTokenFile or username, not both",
        "h.yaml:6: scaler.tls.certFile: must be a path, was 1",
        "h.yaml:6: scaler.tls.keyFile: must be given",
        (
            "h.yaml:6: scaler.tls: must give allowedClientNames with clientCaFile: "
            "a CA alone admits everybody that it signs for"
        ),
    ]
    once = "metrics: {prometheus: {url: 'http://x', username: u}}"
    assert len(problems_in(path, once)) == 1


@pytest.mark.parametrize(
    ("role", "needed"),
    [
        (Role.SERVE, ["metrics", "cluster"]),
        (Role.CONTROLLER, ["metrics", "cluster", "planStore"]),
        (Role.SCALER, ["planStore"]),
    ],
)
def test_a_role_asks_for_what_it_needs(path: Path, role: Role, needed: list[str]) -> None:
    """An empty file lacks, for a role, exactly what that role cannot do without."""
    expected = [f"h.yaml:1: {key}: must be given for headway {role}" for key in needed]
    assert problems_in(path, "", role=role) == expected


def test_a_cluster_s_workloads_are_not_in_the_file(path: Path) -> None:
    """With cluster.kubernetes an entry fixes a mode; the policy has no workloads, and the platform has the modes."""
    text = """\
cluster: {kubernetes: {}}
scaler: {knownAs: ["headway:6000"]}
workloads:
  - {namespace: a, name: fixed, mode: reactive}
"""
    path.write_text(text)
    config = load_config(path)
    assert policy_of(config).workloads == ()
    assert platform_of(config).modes == {("a", "fixed"): Mode.REACTIVE}
    assert platform_of(config).addresses == {"headway:6000"}
    more = "  - {namespace: a, name: b, minReplicas: 0, metadata: {engine: nothing}}\n"
    assert [problem.partition(" with")[0] for problem in problems_in(path, text + more)] == [
        "h.yaml:5: workloads[1].minReplicas: must be left out",
        "h.yaml:5: workloads[1].metadata: must be left out",
        "h.yaml:5: workloads[1].mode: must be given",
    ]


def test_nothing_is_granted_by_default(path: Path) -> None:
    """A source and a profile that the file does not grant are refused, with the same words as one that is another's."""
    text = """\
sources: [{name: q, namespaces: [b], queue: {queue: render}}]
workloads:
  - {namespace: a, name: a, metadata: {engine: rabbitmq, source: q}}
  - {namespace: a, name: b, metadata: {engine: rabbitmq, source: r}}
  - {namespace: a, name: c, metadata: {engine: "profile:p", slotsPerReplica: 1}}
  - {namespace: b, name: d, minReplicas: 0, metadata: {engine: rabbitmq, source: q}}
"""
    granted = "that the platform granted to namespace a, was"
    assert problems_in(path, text) == [
        f"h.yaml:3: workloads[0].metadata.source: must be a source {granted} 'q'",
        f"h.yaml:4: workloads[1].metadata.source: must be a source {granted} 'r'",
        f"h.yaml:5: workloads[2].metadata.engine: must be a profile {granted} 'profile:p'",
    ]


def test_a_mistake_in_the_grants_makes_no_second_error(path: Path) -> None:
    """While the grants cannot be read, nothing is said of what a workload may use; the rest of it is checked."""
    text = """\
sources: [{name: q, namespaces: [a], queue: {queue: render, share: 7}}]
workloads:
  - {namespace: a, name: a, minReplicas: 3, metadata: {engine: rabbitmq, source: q, maxReplicas: 2}}
"""
    assert [problem.partition(": must")[0] for problem in problems_in(path, text)] == [
        "h.yaml:1: sources[0].queue.share",
        "h.yaml:3: workloads[0].metadata.maxReplicas",
    ]


def test_what_the_command_line_gives_need_not_be_in_the_file(path: Path) -> None:
    """A key that is supplied from elsewhere is not asked for."""
    path.write_text("")
    assert load_config(path, role=Role.SCALER, supplied={"planStore"}).plan_store is None


def test_no_secret_is_shown(path: Path) -> None:
    """Neither a refused URL nor the value of an unknown key appears in an error."""
    text = "metrics: {prometheus: {url: 'http://me:hunter2@x', password: hunter2, bearerToken: hunter2}}"
    assert not any("hunter2" in problem for problem in problems_in(path, text))


def test_what_cannot_be_read_is_an_error_too(path: Path) -> None:
    """A missing file, a folder, wrong bytes and a file without end are errors of the same kind."""
    with pytest.raises(ConfigErrors, match=r"h\.yaml: must be a readable file: No such file"):
        load_config(path)
    with pytest.raises(ConfigErrors, match="must be a readable file"):
        load_config(path.parent)
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(ConfigErrors, match=r"h\.yaml:2: must be UTF-8"):
        load_config(path)
    with pytest.raises(ConfigErrors, match=f"/dev/zero: must have at most {MAX_FILE_BYTES} bytes"):
        load_config(Path("/dev/zero"))


def test_merged_mappings_and_text_keys_are_read_as_kubernetes_reads_them(path: Path) -> None:
    """Anchors and merge keys work, own keys win; a key is the text that was written, `on` included."""
    path.write_text(
        "workloads:\n  - &a {namespace: demo, name: a, metadata: {on: 1, slo: 2s}}\n  - {<<: *a, name: b}\n"
    )
    first, second = load_config(path).workloads
    assert (first.name, second.name, second.namespace) == ("a", "b", "demo")
    assert second.metadata == {"on": "1", "slo": "2s"}


@pytest.mark.parametrize("address", [":0", "127.0.0.1:6000", "[::1]:80", "localhost:1", "[::]:65535", "scaler.local:9"])
def test_every_accepted_address_can_be_listened_on(path: Path, address: str) -> None:
    """What the configuration accepts as an address is one to the servers."""
    path.write_text(f"scaler: {{grpcAddress: '{address}'}}")
    assert Address.parse(load_config(path).scaler.grpc_address).port >= 0
