# Every target installs what it needs: a machine with Python >= 3.11 and make is enough.
# Another interpreter: make PYTHON=python3.13 ...
# `make help` lists targets whose comment begins with `##`, `make help-all` those with `#:` as well; tests that are too heavy
# for CI are in tools/counterparts.mk.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
SITE_STAMP := .cache/site/.stamp
# The uv of the machine, or the pinned one that `setup` installs into the virtual environment.
UV     := $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)

# Versions. Those of jars are also in the pom.xml of each set.
KAFKA_VERSION     := 4.3.1
# Kafka's newest client; the broker of this version is not released yet.
NEWEST_VERSION    := 4.4.0
ZOOKEEPER_VERSION := 3.9.5
# Spark's Kafka connector, the newest release; it works with Spark 4.2 and 4.3.
CONNECTOR_VERSION := 4.2.0
ICEBERG_VERSION   := 1.12.0
HADOOP_VERSION    := 3.5.0
# Of fabric8's client in PySpark's folder of jars.
FABRIC8_VERSION   := 7.6.1

# Sets of jars: folders below .cache that tests and benchmarks read.
JARS_STAMP         := .cache/kafka-$(KAFKA_VERSION)/libs/.stamp
NEWEST_STAMP       := .cache/kafka-clients-$(NEWEST_VERSION)/libs/.stamp
ZOOKEEPER_STAMP    := .cache/zookeeper-$(ZOOKEEPER_VERSION)/libs/.stamp
CONNECTOR_STAMP    := .cache/spark-kafka-$(CONNECTOR_VERSION)/libs/.stamp
ICEBERG_STAMP      := .cache/iceberg-$(ICEBERG_VERSION)/libs/.stamp
MIRROR_MAKER_STAMP := .cache/mirror-maker-$(KAFKA_VERSION)/libs/.stamp
HDFS_STAMP         := .cache/hdfs-$(HADOOP_VERSION)/libs/.stamp
YARN_STAMP         := .cache/yarn-$(HADOOP_VERSION)/libs/.stamp
KUBERNETES_STAMP   := .cache/kubernetes-$(FABRIC8_VERSION)/libs/.stamp
S3A_STAMP          := .cache/s3a-$(HADOOP_VERSION)/libs/.stamp
CONNECT_STAMP      := .cache/connect-1/libs/.stamp

# Programs that tests run, by Debian package, or PACKAGE:PROGRAM where the names differ.
PROGRAMS := kcat logrotate slapd ldap-utils:ldapadd krb5-kdc:krb5kdc krb5-admin-server:kadmin.local \
    libkrb5-dev:krb5-config build-essential:cc python3-dev:python3-config nodejs:node npm \
    chromium rsyslog:rsyslogd rsyslog-gnutls:lmnsd_gtls.so rsyslog-openssl:lmnsd_ossl.so bsdutils:logger curl postgresql:pg_ctlcluster redis-server \
    systemd:systemd-analyze groff-base:groff zsh fish
# Unpacked instead of installed: Debian does not install syslog-ng together with rsyslog, and would start Prometheus.
SYSLOG_NG  := .cache/programs/syslog-ng usr/sbin/syslog-ng syslog-ng-core libivykis0 libnet1 libpcre3
PROMETHEUS := .cache/programs/prometheus usr/bin/prometheus prometheus

SERVE ?= --data .cache/data --listen 127.0.0.1:9092
TEST  ?=
TEST_PROCESSES ?= 3
DEMO_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help help-all setup bytecode kernels classes demo tour serve test check format bench bench-clients gate dist container deb docs site pictures programs \
    programs-in-ci kerberos identity-provider axe java java-if-possible mirrormaker pins clean
include tools/counterparts.mk

help:
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  make help-all  list all targets"

help-all:
	@awk 'BEGIN {FS = ":.*#[#:] "} /^[a-z-]+:.*#[#:] / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv with the pinned packages
$(STAMP): requirements/dev.txt requirements/uv.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Barnabas needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x "$(UV)" || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Containers often set PYTHONDONTWRITEBYTECODE. Without bytecode each start compiles, which doubles its time.
bytecode: $(VENV)/.bytecode
	@$(BIN)/python -m compileall -q -j 0 src/barnabas
# uv writes no bytecode either. Files that are templates or of Python 2 do not compile, which does not matter.
$(VENV)/.bytecode: $(STAMP)
	@$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|pip|setuptools|uv)/' $(VENV)/lib/python3.*/site-packages || true
	@touch $@

# Loops compiled by numba and the bytecode that Spark's workers import: the first query would wait for both.
kernels: $(VENV)/.kernels
$(VENV)/.kernels: $(STAMP) $(wildcard src/barnabas/records/columnar/*.py)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m barnabas.records.columnar
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c \
	    'import barnabas.spark.source.rows, pyspark.sql.streaming.python_streaming_source_runner, pyspark.worker'
	@touch $@

# A class data sharing archive of Spark's classes: without it Spark takes twice as long to start.
classes: $(VENV)/.classes
$(VENV)/.classes: $(VENV)/.kernels
	@$(BIN)/python -m examples.demo.warming
	@touch $@

demo: bytecode kernels classes  ## run a shop, its log and three Spark pipelines, and check the results (DEMO_SECONDS=60)
	@DEMO_SECONDS=$(DEMO_SECONDS) $(BIN)/python -m examples.demo

tour: bytecode  ## a short tour of the broker with a real client
	$(BIN)/python -m examples.demo.tour

serve: bytecode  ## run a broker on 127.0.0.1:9092 (SERVE="--data DIR --listen HOST:PORT")
	$(BIN)/barnabas serve $(SERVE)

# Most tests wait for brokers and JVMs, so that three processes use two cores better than two do.
test: bytecode kernels programs-in-ci java-if-possible  ## run the tests that CI runs (TEST="tests/log -k roll" for a part)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --numprocesses $(TEST_PROCESSES) $(TEST)

check: $(STAMP)  ## formatter, linter, strict types, import layers, sizes, names, documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src tools benchmarks simulation examples tests
	$(BIN)/lint-imports
	$(BIN)/python -m tools.check_imports
	$(BIN)/python -m tools.check_cycles
	$(BIN)/python -m tools.check_sizes
	$(BIN)/python -m tools.check_names
	$(BIN)/python -m tools.check_interfaces
	$(BIN)/python -m tools.check_words
	$(BIN)/python -m tools.check_docs

format: $(STAMP)  #: format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: bytecode kernels $(JARS_STAMP) $(CONNECTOR_STAMP) $(MIRROR_MAKER_STAMP)  ## compare with Apache Kafka on this machine (BENCH="--quick --rows produce")
	$(BIN)/python -m benchmarks $(BENCH)

bench-clients: bytecode kernels  #: compare Python clients on one broker (BENCH_CLIENTS="--records 10000")
	$(BIN)/python -m benchmarks.python_clients $(BENCH_CLIENTS)

# The same bytes for the same commit: files carry the time of the commit. A wheel is also built by `pip wheel dist/*.tar.gz`.
dist: $(STAMP)  ## build wheel and sdist into dist/, byte for byte reproducible
	rm -rf dist
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m hatchling build --directory dist

container: dist  ## build a container image without a daemon: dist/barnabas-VERSION-container.tar (needs mmdebstrap)
	@tools/install-programs mmdebstrap
	$(BIN)/python -m tools.packages.container

deb: dist  ## build the Debian package: dist/barnabas_VERSION_amd64.deb
	$(BIN)/python -m tools.packages.debian

docs: $(STAMP)  ## rewrite the generated pages: settings, commands, served APIs
	$(BIN)/python -m tools.generate_docs

site: $(SITE_STAMP)  ## build the documentation as a site in build/site/site, and check its links
	$(BIN)/python -m tools.site $(dir $(SITE_STAMP))bin/zensical

$(SITE_STAMP): requirements/site.txt | $(STAMP)
	$(PYTHON) -m venv --without-pip $(@D)
	$(UV) pip install --quiet --python $(@D)/bin/python --require-hashes -r $<
	@touch $@

gate: bytecode  #: compare the CPU cost of produce and fetch with the baseline commit (GATE="--rounds 15")
	$(BIN)/python -m benchmarks.gate $(GATE)

pictures: bytecode kernels programs  #: take the screenshots of docs/console.md (docs/images/console)
	$(BIN)/pytest tests/services/console/browser/test_screenshots.py --screenshots

programs: $(STAMP)  #: install programs that tests run: apt-get (kcat, slapd, a KDC, Chromium), npm (an OpenID provider, axe)
	@tools/install-programs $(PROGRAMS)
	@tools/unpack-packages $(SYSLOG_NG)
	@tools/unpack-packages $(PROMETHEUS)
	@$(MAKE) --silent --no-print-directory --jobs 2 kerberos identity-provider axe

programs-in-ci:
	@if [ "$$CI" = true ]; then $(MAKE) --silent --no-print-directory programs; fi

# Has no wheels for Linux. Built without optimisation, which takes a third of the time.
kerberos: $(VENV)/.kerberos
$(VENV)/.kerberos: requirements/kerberos.txt requirements/kerberos-build.txt | $(STAMP)
	CFLAGS="-O0 -g0" $(UV) pip install --quiet --python $(BIN)/python --require-hashes --no-deps \
	    --build-constraints requirements/kerberos-build.txt -r requirements/kerberos.txt
	@touch $@

identity-provider: .cache/identity-provider/.stamp
axe: .cache/axe/.stamp
.cache/identity-provider/.stamp: tests/clients/identity_provider/package-lock.json
.cache/axe/.stamp: tests/services/console/browser/axe/package-lock.json
.cache/identity-provider/.stamp .cache/axe/.stamp:
	@mkdir -p $(@D)
	cp $(<D)/package.json $< $(@D)
	cd $(@D) && npm ci --silent --no-audit --no-fund
	@touch $@

java: $(JARS_STAMP) $(NEWEST_STAMP) $(ZOOKEEPER_STAMP) $(CONNECTOR_STAMP) $(ICEBERG_STAMP) $(S3A_STAMP) $(CONNECT_STAMP)  #: fetch jars of Apache Kafka and others with Maven, for tests and benchmark

mirrormaker: $(MIRROR_MAKER_STAMP)  #: fetch MirrorMaker 2 for the benchmark

# A set of jars is fetched again when its pom changes.
$(JARS_STAMP):         tests/java/pom.xml
$(NEWEST_STAMP):       tests/java/newest/pom.xml
$(ZOOKEEPER_STAMP):    tests/java/zookeeper/pom.xml
$(CONNECTOR_STAMP):    tests/java/spark/pom.xml
$(ICEBERG_STAMP):      tests/java/iceberg/pom.xml
$(MIRROR_MAKER_STAMP): tests/java/mirror/pom.xml
$(HDFS_STAMP):         tests/java/hdfs/pom.xml
$(YARN_STAMP):         tests/java/yarn/pom.xml
$(KUBERNETES_STAMP):   tests/java/kubernetes/pom.xml
$(JARS_STAMP) $(NEWEST_STAMP) $(ZOOKEEPER_STAMP) $(CONNECTOR_STAMP) $(ICEBERG_STAMP) $(MIRROR_MAKER_STAMP) $(HDFS_STAMP) $(YARN_STAMP) \
    $(KUBERNETES_STAMP):
	tools/fetch-jars $(@D) $<
	@touch $@

# Fetched with the command that users have: Spark's jars for s3a:// URLs; Delta and PostgreSQL's driver for connectors.
$(S3A_STAMP):     SETS := s3a
$(CONNECT_STAMP): SETS := delta postgres
$(S3A_STAMP) $(CONNECT_STAMP): src/barnabas/spark/jars.py | $(STAMP)
	rm -rf $(@D)
	$(BIN)/barnabas pipeline jars $(SETS) --to $(@D) 2>/dev/null
	@touch $@

# Without Java or Maven, tests that need them are skipped with a reason; in CI they fail.
java-if-possible:
	@if [ -n "$$KAFKA_LIBS" ]; then :; \
	elif command -v mvn >/dev/null && command -v java >/dev/null; then $(MAKE) --silent --no-print-directory java \
	    || { echo "Could not fetch Apache Kafka's jars: tests that need them are skipped."; test "$$CI" != true; }; \
	elif [ -e $(JARS_STAMP) ] && command -v java >/dev/null; then :; \
	else echo "Java or Maven is missing: tests with Apache Kafka's tools are skipped."; test "$$CI" != true; fi

pins: $(STAMP)  #: renew requirements/*.txt from pyproject.toml
	UV=$(UV) requirements/compile.sh

clean:  #: remove everything make built, except jars
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
