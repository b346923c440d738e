"""GPU activity from dcgm-exporter.

`GR_ENGINE_ACTIVE` comes first: it is 0..1 and exists for MIG devices, for which `GPU_UTIL` is 0 or absent
(dcgm-exporter#216). `GPU_UTIL` is what consumer GPUs have (dcgm-exporter#395). On a time-sliced GPU every pod shows
the device's value (label `vgpu`, dcgm-exporter#587): it can say that the device is busy, not by whom, which is all
that the veto asks.
"""

from scaler.adapters.signals.candidates import Candidate, Combine, Preset, Signal

DCGM = Preset(
    name="dcgm",
    version="4.8.2",
    # With honorLabels=false the workload's labels arrive as `exported_*`, and pod/namespace are the exporter's own; the
    # `pod_name` spelling is that of --use-old-namespace (dcgm-exporter#340).
    owners=(
        ("exported_namespace", "exported_pod"),
        ("pod_namespace", "pod_name"),
        ("namespace", "pod"),
    ),
    signals=(
        Signal(
            "gpu_activity",
            (Candidate("DCGM_FI_PROF_GR_ENGINE_ACTIVE"), Candidate("DCGM_FI_DEV_GPU_UTIL", divisor=100.0)),
            # The GPUs of one replica work in step; where they do not, the mean is the share of what was paid for.
            combine=Combine.MEAN,
            parts=("UUID", "gpu", "GPU_I_ID", "vgpu", "Hostname", "hostname"),
            limit=1.0,
        ),
    ),
    notes="""\
- GPU activity never asks for more replicas: one request can read as 100 %.
- A series without a pod (dcgm-exporter#342, #428) is nobody's: the pod's activity is missing, which holds a
  scale-down of an engine that says idle.
- Where a GPU is shared, every pod shows the device's value (dcgm-exporter#587).
""",
)
