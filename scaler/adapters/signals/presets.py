"""Every preset that there is: the engines by the name that a workload uses, and the exporters of GPU activity."""

from collections.abc import Mapping

from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.dcgm import DCGM
from scaler.adapters.signals.hami import HAMI
from scaler.adapters.signals.llamacpp import LLAMACPP
from scaler.adapters.signals.nim import NIM
from scaler.adapters.signals.rabbitmq import RABBITMQ
from scaler.adapters.signals.rayserve import RAYSERVE
from scaler.adapters.signals.sglang import SGLANG
from scaler.adapters.signals.tgi import TGI
from scaler.adapters.signals.triton import TRITON
from scaler.adapters.signals.trtllm import TRTLLM
from scaler.adapters.signals.vllm import VLLM

ENGINES: Mapping[str, Preset] = {
    preset.name: preset for preset in (VLLM, SGLANG, TRITON, TRTLLM, NIM, TGI, LLAMACPP, RAYSERVE, RABBITMQ)
}
PER_QUEUE: frozenset[str] = frozenset({RABBITMQ.name})  # engines whose work waits in a broker, not in the pods
# Of a pod that several speak of, the first whose reading is known counts: dcgm-exporter measures the device itself, and
# sees MIG; HAMi's monitor is what there is where a GPU is shared through HAMi.
DEVICES: tuple[Preset, ...] = (DCGM, HAMI)
