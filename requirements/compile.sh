#!/bin/sh
# Pins every dependency with its hashes: `make pins`. One set of pins for Python 3.11 and newer on every platform
# (--universal); no address of a package index is written down, so that any index or mirror can serve them.
set -eu
cd "$(dirname "$0")/.."
uv="${UV:-uv}"
compile() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate "$@"
}
# What installs the rest, where the machine has none; VERSION=... of another one.
echo "uv==${VERSION:-0.13.8}" | compile - -o requirements/uv.txt
compile pyproject.toml -o requirements/core.txt
compile pyproject.toml --extra dev --constraint requirements/core.txt -o requirements/dev.txt
# What the container image and the Debian package contain: the core, small extras, and pip for others.
echo pip | compile pyproject.toml - --extra cluster --extra tiering --extra registry --extra ingest \
    --constraint requirements/core.txt --constraint requirements/dev.txt -o requirements/packages.txt
# The oldest Spark that pyproject.toml allows, for `make spark-oldest`.
echo 'pyspark==4.2.0' | compile - --no-deps -o requirements/oldest-spark.txt
# The library of the extra `kerberos`, which tests need, and what builds it: the Cython that it names itself.
echo 'gssapi>=1.9' | compile - -o requirements/kerberos.txt
printf 'cython==3.3.0\nsetuptools\n' | compile - -o requirements/kerberos-build.txt
# Checks of the packages (`make packages`): schemas of CycloneDX and Kubernetes, and pipx.
printf 'cyclonedx-python-lib[json-validation]>=11\nkubernetes-validate\npipx\n' | compile - -o requirements/packaging.txt
# The documentation site (`make site`).
echo 'zensical>=0.0.73' | compile - -o requirements/site.txt
