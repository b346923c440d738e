"""The world as ports: metrics sources, KEDA's gRPC, exporters, stores and clocks. Nothing here decides a number."""
