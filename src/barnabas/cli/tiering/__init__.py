"""`barnabas tier` and `barnabas snapshot`: what of the topics lies in an object store, and whether it is sound."""
