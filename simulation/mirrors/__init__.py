"""A simulated cluster that mirrors a topic of another one.

source      the other cluster, as far as a mirror sees it: a log with epochs, which unclean elections cut
process     what `barnabas mirror` does, in short
scenario    both, while brokers of the target fail, are elected uncleanly, and promote the mirror
mutants     bugs put in on purpose
"""

from simulation.mirrors.scenario import MirrorScenario

__all__ = ["MirrorScenario"]
