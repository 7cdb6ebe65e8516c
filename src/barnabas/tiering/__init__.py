"""Tiered storage (KIP-405): sealed segments in an object store, listed by one manifest per partition.

Entry points: `open_store` and `ObjectStore`, `RemoteLog` for reading, `RemoteWriter` for copying, `Manifest`.

stores/            object store interface and implementations
  store              interface and errors
  opening            URL to store: a folder (`folder_store`) or a bucket (`obstore_store`)
  probe              verifies that conditional writes are atomic
objects/           formats of stored objects
  layout             the keys of all objects
  segment_object     one object per segment: bytes of the .log, indexes, footer
  segment_build      builds such an object piece by piece
  manifest           list of a partition's segments, the only source of truth
  manifest_changes   changes of the manifest as pure functions
  manifest_file      reads it and replaces it by compare-and-swap
writing/           one task per leader partition
  remote_writer      `claim`, `sweep`, `copier` (`pacing`), `expiration`
reading/           fetches below the local log start: cached chunks, indexes and manifests
snapshots          pinned copies of manifests, and clones
restoring          cluster state in the store, and restore from it
repair             rebuilds a manifest from segment footers, verifies checksums
"""
