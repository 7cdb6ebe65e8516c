# Every target does its own set-up: a machine with Python >= 3.11 and make needs nothing more.
# Other interpreter: make PYTHON=python3.13 ...

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
# A uv on the machine is used; otherwise `setup` installs the pinned one into the virtual environment.
UV     := $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)

KAFKA_VERSION := 4.3.1
JARS          := .cache/kafka-$(KAFKA_VERSION)/libs
JARS_STAMP    := $(JARS)/.stamp

# The newest client; of this version no broker can be had yet.
NEWEST_VERSION := 4.4.0
NEWEST_JARS    := .cache/kafka-clients-$(NEWEST_VERSION)/libs
NEWEST_STAMP   := $(NEWEST_JARS)/.stamp

MIRROR_MAKER_JARS  := .cache/mirror-maker-$(KAFKA_VERSION)/libs
MIRROR_MAKER_STAMP := $(MIRROR_MAKER_JARS)/.stamp

ZOOKEEPER_VERSION := 3.9.5
ZOOKEEPER_JARS    := .cache/zookeeper-$(ZOOKEEPER_VERSION)/libs
ZOOKEEPER_STAMP   := $(ZOOKEEPER_JARS)/.stamp

# The newest that can be had. It works with Spark 4.2 and 4.3.
CONNECTOR_VERSION := 4.2.0
CONNECTOR_JARS    := .cache/spark-kafka-$(CONNECTOR_VERSION)/libs
CONNECTOR_STAMP   := $(CONNECTOR_JARS)/.stamp

# The oldest Spark that pyproject.toml allows; the newest one is pinned.
OLDEST_SPARK       := .cache/oldest-spark
OLDEST_SPARK_STAMP := $(OLDEST_SPARK)/.stamp
# What meets Spark's own classes: both connectors, source, sink, runner, SQL definitions, Spark's own runner.
OLDEST_SPARK_TESTS ?= tests/spark/test_connectors.py tests/spark/test_session.py tests/spark/sink/test_writing.py \
    tests/pipelines/running tests/pipelines/library/test_commands.py tests/pipelines/library/test_activity.py \
    tests/pipelines/lake/test_iceberg.py

ICEBERG_VERSION := 1.12.0
ICEBERG_JARS    := .cache/iceberg-$(ICEBERG_VERSION)/libs
ICEBERG_STAMP   := $(ICEBERG_JARS)/.stamp

# What Spark needs for s3a:// URLs, and HDFS itself.
HADOOP_VERSION := 3.5.0
S3A_JARS       := .cache/s3a-$(HADOOP_VERSION)/libs
S3A_STAMP      := $(S3A_JARS)/.stamp
HDFS_JARS      := .cache/hdfs-$(HADOOP_VERSION)/libs
HDFS_STAMP     := $(HDFS_JARS)/.stamp

# What connectors are tried with: the driver of PostgreSQL, and Delta.
CONNECT_JARS  := .cache/connect-1/libs
CONNECT_STAMP := $(CONNECT_JARS)/.stamp

# Object stores that others wrote, for `make object-stores`.
OBJECT_STORES     ?= .cache/object-stores
VERSITYGW_VERSION := 1.8.0
AZURITE_VERSION   := 3.35.0
S3MOCK_VERSION    := 4.8.0

# What tells the changes of PostgreSQL's tables, too, for `make connect-counterparts`.
DEBEZIUM_VERSION := 3.6.0.Final
DEBEZIUM         := .cache/debezium-$(DEBEZIUM_VERSION)

# A search engine, for `make connect-counterparts`.
MARIADB_DRIVER_VERSION := 3.5.6
OPENSEARCH_VERSION := 3.6.0
OPENSEARCH         ?= .cache/opensearch

# Programs that tests run against a broker, by the names of their Debian packages: a client, an LDAP server, a KDC; what
# the library of the extra `kerberos` is built with; what runs an OpenID provider; a browser; senders of syslog (the drivers
# of TLS are no programs, only files).
PROGRAMS := kcat logrotate slapd ldap-utils:ldapadd krb5-kdc:krb5kdc krb5-admin-server:kadmin.local \
    libkrb5-dev:krb5-config build-essential:cc python3-dev:python3-config nodejs:node npm \
    chromium rsyslog:rsyslogd rsyslog-gnutls:lmnsd_gtls.so rsyslog-openssl:lmnsd_ossl.so bsdutils:logger curl postgresql:pg_ctlcluster redis-server
# Debian does not install it beside rsyslog, so it is unpacked, with its libraries.
SYSLOG_NG := .cache/programs/syslog-ng usr/sbin/syslog-ng syslog-ng-core libivykis0 libnet1 libpcre3
# Would be started where it is installed.
PROMETHEUS := .cache/programs/prometheus usr/bin/prometheus prometheus

KERBEROS_STAMP := $(VENV)/.kerberos

# Checks of accessibility, for the pages of the console.
AXE        := .cache/axe
AXE_SOURCE := tests/services/console/browser/axe
AXE_STAMP  := $(AXE)/.stamp

IDENTITY_PROVIDER        := .cache/identity-provider
IDENTITY_PROVIDER_SOURCE := tests/clients/identity_provider
IDENTITY_PROVIDER_STAMP  := $(IDENTITY_PROVIDER)/.stamp

SERVE ?= --data .cache/data --listen 127.0.0.1:9092
TEST  ?=
TEST_PROCESSES ?= 2
BENCH ?=
GATE  ?=
HOSTILE ?=
SEEDS ?= 1-1000
CHAOS ?=
INGEST ?=
FUZZ  ?= --frames 1000000
DEMO_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help setup bytecode kernels classes demo tour serve test simulate fuzz check format docs chaos bench gate hostile spark-oldest counterparts registry-clients registry-chaos hdfs connect-worker kerberos object-stores object-stores-install connect-counterparts opensearch-install identity-provider programs programs-in-ci java java-if-possible mirrormaker mirrors pins clean

help:  ## what there is
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv and install what is pinned

$(STAMP): requirements/dev.txt requirements/uv.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Barnabas needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x "$(UV)" || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Containers often set PYTHONDONTWRITEBYTECODE. Without bytecode every start compiles, which takes as long as the rest.
bytecode: $(STAMP)
	@$(BIN)/python -m compileall -q -j 0 src/barnabas

# Loops that numba compiles, and the bytecode of what Spark's workers import: otherwise the first query waits for both.
KERNELS_STAMP := $(VENV)/.kernels
kernels: $(KERNELS_STAMP)
$(KERNELS_STAMP): $(STAMP) $(wildcard src/barnabas/records/columnar/*.py)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m barnabas.records.columnar
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c \
	    'import barnabas.spark.source.rows, pyspark.sql.streaming.python_streaming_source_runner, pyspark.worker'
	@touch $@

# Spark's classes as Java has them in memory: without them Spark takes twice as long to start.
CLASSES_STAMP := $(VENV)/.classes
classes: $(CLASSES_STAMP)
$(CLASSES_STAMP): $(KERNELS_STAMP)
	@$(BIN)/python -m examples.demo.warming
	@touch $@

demo: bytecode kernels classes  ## a shop, its log and three pipelines on Spark, checked (DEMO_SECONDS=60)
	@DEMO_SECONDS=$(DEMO_SECONDS) $(BIN)/python -m examples.demo

tour: bytecode  ## a short tour of the broker itself, with a real client
	$(BIN)/python -m examples.demo.tour

serve: bytecode  ## a broker on 127.0.0.1:9092 (SERVE="--data DIR --listen HOST:PORT")
	$(BIN)/barnabas serve $(SERVE)

# Most tests wait for brokers and JVMs longer than they work: two processes take little more than half the time of one.
test: bytecode kernels programs-in-ci java-if-possible  ## everything CI runs (TEST="tests/log -k roll" for a part)
	$(BIN)/pytest --numprocesses $(TEST_PROCESSES) $(TEST)

simulate: $(STAMP)  ## a cluster with failures, from seeds (SEEDS=1-5000 SIMULATE="--plain --tiered --mirrors --keep-going")
	PYTHONHASHSEED=0 $(BIN)/python -m simulation --seeds $(SEEDS) $(SIMULATE)

fuzz: $(STAMP)  ## a million extreme and damaged frames, with a stopwatch (FUZZ="--minutes 5 --listener sasl --stage before")
	$(BIN)/python -m tests.fuzz $(FUZZ)

.PHONY: fuzz-ports
counterparts: fuzz-ports
fuzz-ports: $(STAMP)  ## the ports of registry, console, exporter, metrics, HTTP ingest, syslog and statsd, two minutes each
	$(BIN)/python -m tests.fuzz --port all --minutes 2

check: $(STAMP)  ## format, lint, strict types, import layers, sizes, documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src tools benchmarks simulation examples tests
	$(BIN)/lint-imports
	$(BIN)/python -m tools.check_imports
	$(BIN)/python -m tools.check_sizes
	$(BIN)/python -m tools.check_names
	$(BIN)/python -m tools.check_words
	$(BIN)/python -m tools.check_docs

format: $(STAMP)  ## rewrite the code the way `check` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## rewrite the generated pages: settings, commands, served APIs
	$(BIN)/python -m tools.generate_docs

chaos: $(STAMP) java-if-possible  ## kill, pause and cut off brokers of real clusters (CHAOS="--minutes 10 --security SASL_SSL --tiered")
	$(BIN)/python -m tests.chaos.matrix $(CHAOS)

bench: bytecode kernels $(JARS_STAMP) $(CONNECTOR_STAMP) $(MIRROR_MAKER_STAMP)  ## side by side with Apache Kafka (BENCH="--quick --rows produce")
	$(BIN)/python -m benchmarks $(BENCH)

gate: bytecode  ## what produce and fetch requests cost, beside the commit that limits refer to (GATE="--rounds 15")
	$(BIN)/python -m benchmarks.gate $(GATE)

hostile: bytecode  ## what one hostile connection can do to a default node (HOSTILE="1 4")
	$(BIN)/python -m benchmarks.hostile $(HOSTILE)

# What takes too long for CI. Run before an issue is called done; results are kept in docs/proof.
counterparts: hostile fuzz spark-oldest object-stores registry-clients registry-chaos hdfs mirrors connect-worker connect-counterparts  ## what is too heavy for CI: hostile connections, fuzzed frames, the oldest Spark, object stores, clients of the schema registry

connect-worker: bytecode $(JARS_STAMP)  ## Apache's Connect runtime with a plugin of its own
	mvn --quiet --batch-mode dependency:copy -DoutputDirectory="$(CURDIR)/.cache/connect-plugins" \
	    -Dartifact=org.apache.kafka:connect-file:$(KAFKA_VERSION)
	mvn --quiet --batch-mode dependency:copy -DoutputDirectory="$(CURDIR)/.cache/connect-rest" \
	    -Dartifact=org.apache.kafka:connect-basic-auth-extension:$(KAFKA_VERSION)
	$(BIN)/pytest -m extended tests/connect/test_worker.py

.PHONY: pictures
pictures: bytecode kernels programs  ## write the pictures of docs/console.md anew (docs/images/console)
	$(BIN)/pytest tests/services/console/browser/test_screenshots.py --screenshots

hdfs: bytecode kernels $(HDFS_STAMP)  ## pipelines on a real NameNode and DataNodes, one of which is killed
	$(BIN)/pytest -m extended tests/pipelines/lake/test_hdfs.py

connect-counterparts: bytecode kernels  ## connectors killed for longer, and beside OpenSearch, Debezium and MariaDB (make opensearch-install debezium-install mariadb-install)
	OPENSEARCH_FOLDER="$(abspath $(OPENSEARCH))" $(BIN)/pytest -m extended tests/connect/sinks tests/connect/sources

.PHONY: debezium-install mariadb-install
debezium-install:  ## fetch Debezium's connector for PostgreSQL from Maven, 25 MB
	mvn --quiet --batch-mode dependency:copy -DoutputDirectory="$(abspath $(DEBEZIUM))" \
	    -Dartifact=io.debezium:debezium-connector-postgres:$(DEBEZIUM_VERSION):tar.gz:plugin
	cd $(DEBEZIUM) && tar xzf *.tar.gz && rm *.tar.gz

mariadb-install:  ## install MariaDB (apt-get) and its driver (Maven)
	tools/install-programs mariadb-server:mariadbd
	mvn --quiet --batch-mode dependency:copy -DoutputDirectory="$(CURDIR)/.cache/mariadb-driver" \
	    -Dartifact=org.mariadb.jdbc:mariadb-java-client:$(MARIADB_DRIVER_VERSION)

opensearch-install:  ## fetch OpenSearch from Maven, 160 MB
	mvn --quiet --batch-mode dependency:copy -DoutputDirectory="$(abspath $(OPENSEARCH))-zip" \
	    -Dartifact=org.opensearch.distribution.integ-test-zip:opensearch:$(OPENSEARCH_VERSION):zip
	rm -rf $(OPENSEARCH) && unzip -q $(OPENSEARCH)-zip/opensearch-$(OPENSEARCH_VERSION).zip -d $(OPENSEARCH)-zip
	mv $(OPENSEARCH)-zip/opensearch-$(OPENSEARCH_VERSION) $(OPENSEARCH) && rm -rf $(OPENSEARCH)-zip

registry-clients: $(STAMP)  ## npm's and franz-go's clients of a schema registry against ours (needs npm and go)
	$(BIN)/python -m tests.services.registry.counterparts

registry-chaos: $(STAMP)  ## four schema registries that are killed for ten minutes (REGISTRY_CHAOS="--minutes 3")
	$(BIN)/python -m tests.services.registry.chaos $(REGISTRY_CHAOS)

object-stores: $(STAMP)  ## what tiering asks of a store, over versitygw, azurite and s3mock (make object-stores-install)
	$(BIN)/python -m tests.tiering.counterparts $(OBJECT_STORES)

# Takes two minutes, nearly all of it for Go's compiler.
object-stores-install:  ## install versitygw (go), azurite (npm) and s3mock (Maven)
	GOBIN="$(abspath $(OBJECT_STORES))" go install github.com/versity/versitygw/cmd/versitygw@v$(VERSITYGW_VERSION)
	npm install --silent --prefix $(OBJECT_STORES) azurite@$(AZURITE_VERSION)
	mvn --quiet --batch-mode dependency:copy -DoutputDirectory="$(abspath $(OBJECT_STORES))" \
	    -Dartifact=com.adobe.testing:s3mock:$(S3MOCK_VERSION):jar:exec

.PHONY: prometheus-boards
counterparts: prometheus-boards
prometheus-boards: bytecode java  ## Prometheus on three brokers and the exporter: boards of others have data, and sums are true
	@tools/unpack-packages $(PROMETHEUS)
	$(BIN)/pytest -m extended tests/services/console/exporter/test_prometheus_boards.py

# What shows at length what a shorter test shows, and needs nothing but what `make test` needs. The other tests with that
# mark have targets of their own, above.
EXTENDED ?= tests/chaos tests/cli tests/client tests/clients tests/groups tests/handlers tests/services/ingest tests/network tests/pipelines/library \
    tests/spark/test_broker_away.py tests/spark/test_killed_driver.py tests/share tests/services/registry
.PHONY: extended
counterparts: extended
extended: bytecode kernels java-if-possible  ## what tests show at length: more jobs, faults, templates, seeds (EXTENDED="tests/share")
	$(BIN)/pytest --numprocesses $(TEST_PROCESSES) -m extended $(EXTENDED)
	SIMULATION_SECONDS=60 TIERED_SCENARIOS=60 $(BIN)/pytest tests/simulation -k no_scenario

# Clients and programs of others against a broker; tools/install-peers says how each is installed.
.PHONY: peers stream-processors endurance
counterparts: peers stream-processors endurance
peers: bytecode  ## franz-go, sarama, kafka-go, kafkajs and rskafka against a broker (needs go, npm and cargo)
	tools/install-peers go kafkajs rskafka
	$(BIN)/pytest -m extended tests/peers/test_clients.py

stream-processors: bytecode  ## Flink exactly once with a kill, Storm's spout, Flume as source, channel and sink (needs Maven and a JDK)
	tools/install-peers flink storm flume
	$(BIN)/pytest -m extended tests/peers/test_stream_processors.py

endurance: bytecode  ## 3,000 connections for five minutes, a sparse log of 1 TB, floors of rates and latencies (PEER_SECONDS=300; needs go)
	tools/install-peers go
	$(BIN)/pytest -s -m extended tests/peers/test_many_connections.py tests/peers/test_sparse_log.py tests/peers/test_floor.py

.PHONY: ingest-rotations flume
counterparts: ingest-rotations
ingest-rotations: $(STAMP)  ## 3,000 rotations by logrotate while agent and broker are killed, half an hour (INGEST="--rotations 100")
	$(BIN)/python -m tests.services.ingest.rotation_proof $(INGEST)

# For rows of the benchmark that stand beside them; without them the rows are left out.
flume:  ## install Apache Flume (Maven) and rsyslog with omkafka (apt-get) for `make bench`
	tools/install-peers flume
	ls /usr/lib/*/rsyslog/omkafka.so >/dev/null 2>&1 || apt-get install --quiet=2 --yes --no-install-recommends rsyslog-kafka

# In its own folder, before the pinned one on the path of Python and of Spark's workers.
spark-oldest: bytecode kernels $(OLDEST_SPARK_STAMP) java-if-possible  ## tests of pipelines with the oldest Spark that is supported
	PYTHONPATH="$(CURDIR)/$(OLDEST_SPARK)" $(BIN)/pytest --numprocesses $(TEST_PROCESSES) $(OLDEST_SPARK_TESTS)

$(OLDEST_SPARK_STAMP): requirements/oldest-spark.txt | $(STAMP)
	rm -rf $(OLDEST_SPARK)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --no-deps --target $(OLDEST_SPARK) -r requirements/oldest-spark.txt
	@touch $@

programs: $(STAMP)  ## install what tests run: kcat, an LDAP server, a KDC and a browser with apt-get, an OpenID provider and axe with npm
	@tools/install-programs $(PROGRAMS)
	@tools/unpack-packages $(SYSLOG_NG)
	@tools/unpack-packages $(PROMETHEUS)
	@$(MAKE) --silent --no-print-directory --jobs 2 kerberos identity-provider axe

# It has no wheels for Linux and is built here; without optimisation, which tests need not, in a third of the time.
kerberos: $(KERBEROS_STAMP)
$(KERBEROS_STAMP): requirements/kerberos.txt requirements/kerberos-build.txt | $(STAMP)
	CFLAGS="-O0 -g0" $(UV) pip install --quiet --python $(BIN)/python --require-hashes --no-deps \
	    --build-constraints requirements/kerberos-build.txt -r requirements/kerberos.txt
	@touch $@

identity-provider: $(IDENTITY_PROVIDER_STAMP)
$(IDENTITY_PROVIDER_STAMP): $(IDENTITY_PROVIDER_SOURCE)/package-lock.json
	@mkdir -p $(IDENTITY_PROVIDER)
	cp $(IDENTITY_PROVIDER_SOURCE)/package.json $(IDENTITY_PROVIDER_SOURCE)/package-lock.json $(IDENTITY_PROVIDER)
	cd $(IDENTITY_PROVIDER) && npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: axe
axe: $(AXE_STAMP)
$(AXE_STAMP): $(AXE_SOURCE)/package-lock.json
	@mkdir -p $(AXE)
	cp $(AXE_SOURCE)/package.json $(AXE_SOURCE)/package-lock.json $(AXE)
	cd $(AXE) && npm ci --silent --no-audit --no-fund
	@touch $@

programs-in-ci:
	@if [ "$$CI" = true ]; then $(MAKE) --silent --no-print-directory programs; fi

java: $(JARS_STAMP) $(NEWEST_STAMP) $(ZOOKEEPER_STAMP) $(CONNECTOR_STAMP) $(ICEBERG_STAMP) $(S3A_STAMP) $(CONNECT_STAMP)  ## fetch the jars of Apache Kafka and others with Maven, for tests and benchmark

$(JARS_STAMP): tests/java/pom.xml
	mvn --quiet --batch-mode --file tests/java/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(JARS)"
	@touch $@

$(NEWEST_STAMP): tests/java/newest/pom.xml
	mvn --quiet --batch-mode --file tests/java/newest/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(NEWEST_JARS)"
	@touch $@

$(ZOOKEEPER_STAMP): tests/java/zookeeper/pom.xml
	mvn --quiet --batch-mode --file tests/java/zookeeper/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(ZOOKEEPER_JARS)"
	@touch $@

$(CONNECTOR_STAMP): tests/java/spark/pom.xml
	mvn --quiet --batch-mode --file tests/java/spark/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(CONNECTOR_JARS)"
	@touch $@

$(ICEBERG_STAMP): tests/java/iceberg/pom.xml
	mvn --quiet --batch-mode --file tests/java/iceberg/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(ICEBERG_JARS)"
	@touch $@

# Only the benchmark's rows of the mirror and one test need it.
mirrors: bytecode kernels java $(MIRROR_MAKER_STAMP)  ## the mirror beside Apache Kafka and MirrorMaker's own client
	$(BIN)/pytest tests/services/mirror -m "java or extended"

mirrormaker: $(MIRROR_MAKER_STAMP)  ## fetch MirrorMaker 2, which the mirror is measured beside

$(MIRROR_MAKER_STAMP): tests/java/mirror/pom.xml
	mvn --quiet --batch-mode --file tests/java/mirror/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(MIRROR_MAKER_JARS)"
	@touch $@

# With the command that users have.
$(S3A_STAMP): src/barnabas/spark/jars.py | $(STAMP)
	rm -rf $(S3A_JARS)
	$(BIN)/barnabas pipeline jars s3a --to $(S3A_JARS) 2>/dev/null
	@touch $@

$(CONNECT_STAMP): src/barnabas/spark/jars.py | $(STAMP)
	rm -rf $(CONNECT_JARS)
	$(BIN)/barnabas pipeline jars delta postgres --to $(CONNECT_JARS) 2>/dev/null
	@touch $@

$(HDFS_STAMP): tests/java/hdfs/pom.xml
	mvn --quiet --batch-mode --file tests/java/hdfs/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(HDFS_JARS)"
	@touch $@

# Tests that need Java are skipped, with a reason, where Java or Maven is missing; in CI that is a failure.
java-if-possible:
	@if [ -n "$$KAFKA_LIBS" ]; then :; \
	elif command -v mvn >/dev/null && command -v java >/dev/null; then $(MAKE) --silent --no-print-directory java \
	    || { echo "Apache Kafka's jars could not be fetched: tests that need them are skipped."; test "$$CI" != true; }; \
	elif [ -e $(JARS_STAMP) ] && command -v java >/dev/null; then :; \
	else echo "No Java or no Maven here: tests against Apache Kafka's own tools are skipped."; test "$$CI" != true; fi

pins: $(STAMP)  ## renew requirements/*.txt from pyproject.toml
	UV=$(UV) requirements/compile.sh

clean:  ## remove what make made (not the jars)
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
