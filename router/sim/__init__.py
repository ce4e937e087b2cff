"""A simulated pair of SGLang engines: the HTTP surface as recorded, the speed from a profile."""

from router.sim.params import SimParams
from router.sim.profiles import PROFILE_NAMES, ProfileError, load_profile
from router.sim.server import SimulatedEngine, SimulatedPair, run_sim

__all__ = [
    "PROFILE_NAMES",
    "ProfileError",
    "SimParams",
    "SimulatedEngine",
    "SimulatedPair",
    "load_profile",
    "run_sim",
]
