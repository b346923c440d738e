"""The only place where adapters meet the core: builds each role from its configuration and runs it until stopped."""

from scaler.compose.controller import run_controller
from scaler.compose.parts import Overrides
from scaler.compose.plan_client import PlanError, plan_of
from scaler.compose.scaler import run_scaler
from scaler.compose.serve import serve

__all__ = ["Overrides", "PlanError", "plan_of", "run_controller", "run_scaler", "serve"]
