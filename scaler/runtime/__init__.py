"""What makes the decision run: control loop, health, logging, supervision of processes. Knows ports, no adapters."""
