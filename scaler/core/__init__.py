"""The decision, pure: no I/O, no clock, no randomness, no logging. `engine.step` is the way in."""
