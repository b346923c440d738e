"""KEDA's external scaler contract: the proto, and the Python code that `regenerate` makes of it."""
