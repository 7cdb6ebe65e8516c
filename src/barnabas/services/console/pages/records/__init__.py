"""Records of a topic: search, single record, tail, export, activity report, producing."""
