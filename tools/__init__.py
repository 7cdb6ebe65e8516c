"""Scripts of the developers: the generated pages of the documentation, and checks that `make check` runs."""
