"""Builds in addition to the wheel: manual pages, completion, a Debian package, a container image."""
