"""A simulated cluster that mirrors a topic of another one.

source      the source cluster as seen by a mirror: a log with leader epochs, truncated by unclean elections
process     a minimal `barnabas mirror`
scenario    both, while brokers of the target fail, are elected uncleanly, and promote the mirror
mutants     seeded bugs
"""

from simulation.mirrors.scenario import MirrorScenario

__all__ = ["MirrorScenario"]
