"""`agent.yml`: the sources of an agent, in words."""
