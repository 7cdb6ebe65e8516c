"""Developer scripts: generators of documentation pages, and the checks of `make check`."""
