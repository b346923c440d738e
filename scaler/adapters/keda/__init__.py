"""KEDA's wire: what the scaler role is made of. It answers from the plan it holds and does nothing else."""
