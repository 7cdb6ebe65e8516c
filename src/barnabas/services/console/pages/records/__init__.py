"""Records of a topic: search, one record, tail, export, report, and producing them."""
