"""`barnabas tier` and `barnabas snapshot`: inspect, verify, repair and snapshot tiered topics in an object store."""
