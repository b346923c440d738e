"""GPU activity from HAMi's node monitor (2.10.0, port 31992), for GPUs that are shared through HAMi.

`hami_container_device_utilization_ratio` is a container's own share of a device's multiprocessors, in percent whatever
its name says. `hami_host_gpu_utilization_ratio` (in percent too) has no pod and is not read. The CamelCase name is that
of older versions and of `--legacy-metrics`.
"""

from scaler.adapters.signals.candidates import Candidate, Combine, Preset, Signal

HAMI = Preset(
    name="hami",
    version="2.10.0",
    # As with dcgm-exporter, the workload's labels arrive as `exported_*` unless labels are honoured.
    owners=(
        ("podnamespace", "podname"),
        ("exported_namespace", "exported_pod"),
        ("namespace", "pod"),
    ),
    signals=(
        Signal(
            "gpu_activity",
            (
                Candidate("hami_container_device_utilization_ratio", divisor=100.0, having=("device_uuid",)),
                Candidate("Device_utilization_desc_of_container", divisor=100.0, having=("deviceuuid",)),
            ),
            combine=Combine.MEAN,
            parts=(
                *("device_uuid", "vdevice_index", "container", "exported_container"),
                *("deviceuuid", "vdeviceid", "ctrname"),
            ),
            limit=1.0,
        ),
    ),
    notes="""\
- It is the container's own activity, where dcgm-exporter shows a shared device's.
- Names that end in `_ratio` are in percent.
- `hami_container_last_kernel_elapsed_seconds` tells an idle container well, but it is a time, not an activity, and
  has no series before the first kernel; it is not read.
- The monitor skips pods that are gone; the exporter of its device plugin did not (volcano-vgpu-device-plugin#130).
  Either way only live pods are looked at.
""",
)
