"""The policy where nothing but the configuration file says what it is."""

from dataclasses import dataclass

from scaler.config.models import Policy


@dataclass(frozen=True, slots=True)
class FixedPolicy:
    """A PolicySource that always says the same. A cluster's follows its ScaledObjects instead."""

    policy: Policy

    def current(self) -> Policy:
        """Return the policy."""
        return self.policy
