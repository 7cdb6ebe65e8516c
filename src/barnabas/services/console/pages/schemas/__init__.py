"""Pages of the schema registry: subjects and their versions, differences, checks and registrations."""
