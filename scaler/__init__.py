"""Headway: a proactive KEDA external scaler for GPU inference. See docs/architecture.md for the rooms of this house."""
