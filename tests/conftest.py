"""Settings that hold for every test: Hypothesis profiles, one thread for numerical libraries, what freezegun skips."""

import os

import freezegun
from hypothesis import HealthCheck, settings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# No deadline: a shared machine is slow at times, and time is never what a test asserts.
settings.register_profile("default", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# freezegun looks at every attribute of every module. The client library makes its models then, with the frozen datetime
# in their fields, and that raises half-way: the time of the whole process would stay frozen.
freezegun.configure(extend_ignore_list=["kubernetes"])
