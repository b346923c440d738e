"""`make bench`: what Headway costs, as ratios measured in one run. Figures beside targets, no test that fails.

`python -m tests.bench` measures and prints; the other modules are its parts, some of them processes of their own.
"""
