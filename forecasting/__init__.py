"""Series in, quantiles out. Knows nothing of Kubernetes, GPUs or KEDA; does no I/O and reads no clock."""
