"""From raw samples to signals: which series mean what, for which engine, and when a number cannot be believed.

Presets name candidates (`vllm`, `dcgm`, `rabbitmq`), `counters` remembers what a rate needs, `project` makes readings.
"""
