"""Sealed segments in an object store (KIP-405): a replica is a tail on this disk and a manifest in the bucket.

stores/            what Barnabas asks of an object store, and the kinds of stores
  store              the seam, and its errors
  opening            from a URL to a store: a folder (`folder_store`) or a bucket (`obstore_store`)
  probe              does a store keep what it says of conditional writes?
objects/           what lies in the store
  layout             the keys of all objects
  segment_object     one object per segment: bytes of the .log, then what a reader needs to know of them
  segment_build      making such an object, piece by piece
  manifest           the list of a partition's segments, and the only thing that says which of them exist
  manifest_changes   every change of it, as a pure function
  manifest_file      reading it, and replacing it by compare-and-swap
writing/           one task for each led partition
  remote_writer      `claim`, `sweep`, `copier` (`pacing`), `expiration`
  named_steps        the steps of copying and expiring, where tests stop a writer
reading/           consumers behind the local start: chunks, indexes and manifests, cached
snapshots          pinned copies of manifests, and clones that read the objects of others
restoring          what a cluster writes down of itself, and how it comes back from there
repair             a manifest from the footers of its segments, every object against its checksums
"""
