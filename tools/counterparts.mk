# Tests that are too heavy for CI: run them before a release, and keep the results in docs/proof. Part of the Makefile.

DEBEZIUM_VERSION       := 3.6.0.Final
MARIADB_DRIVER_VERSION := 3.5.6
OPENSEARCH_VERSION     := 3.6.0
VERSITYGW_VERSION      := 1.8.0
AZURITE_VERSION        := 3.35.0
S3MOCK_VERSION         := 4.8.0
HELM_VERSION           := 3.22.0
KUBECONFORM_VERSION    := 0.8.0

OPENSEARCH    ?= .cache/opensearch
OBJECT_STORES ?= .cache/object-stores
SEEDS ?= 1-1000
FUZZ  ?= --frames 1000000

COUNTERPARTS := hostile fuzz fuzz-ports spark-oldest spark-clusters object-stores registry-clients registry-chaos hdfs mirrors connect-worker \
    connect-counterparts prometheus-boards site otel-collector extended peers stream-processors endurance ingest-rotations packages node-processes node-chaos
.PHONY: counterparts $(COUNTERPARTS) simulate chaos flume debezium-install mariadb-install opensearch-install object-stores-install packages-install
counterparts: $(COUNTERPARTS)  #: all of these that `make test` leaves out, except simulate and chaos

hostile: bytecode  #: measure the damage one hostile connection does to a default node (HOSTILE="1 4")
	$(BIN)/python -m benchmarks.hostile $(HOSTILE)

simulate: $(STAMP)  #: simulate clusters with failures, by seed (SEEDS=1-5000 SIMULATE="--plain --tiered --mirrors --keep-going")
	PYTHONHASHSEED=0 $(BIN)/python -m simulation --seeds $(SEEDS) $(SIMULATE)

chaos: $(STAMP) java-if-possible  #: kill, pause and isolate brokers of real clusters (CHAOS="--minutes 10 --security SASL_SSL --tiered")
	$(BIN)/python -m tests.chaos.matrix $(CHAOS)

fuzz: $(STAMP)  #: send a million extreme and damaged frames, timed (FUZZ="--minutes 5 --listener sasl --stage before")
	$(BIN)/python -m tests.fuzz $(FUZZ)

fuzz-ports: $(STAMP)  #: fuzz registry, console, exporter, metrics, HTTP ingest, syslog and statsd, two minutes each
	$(BIN)/python -m tests.fuzz --port all --minutes 2

# Client suites on a node with several processes; some look into the broker's memory and are left out.
NODE_PROCESSES_TESTS ?= confluent kcat transactions_confluent groups_java consumer_groups aiokafka kafka_python groups_rebalances
node-processes: bytecode kernels java-if-possible  #: clients on a node with two processes, folders through 1, 4, 8 processes and back, containers
	NODE_PROCESSES=2 $(BIN)/pytest --numprocesses $(TEST_PROCESSES) $(NODE_PROCESSES_TESTS:%=tests/clients/test_%.py) \
	    -k "not its_one_broker and not lists_brokers and not silent_transactional"
	$(BIN)/pytest -m extended tests/broker/processes tests/clients/test_kafka_folders.py

node-chaos: bytecode java-if-possible  #: faults of a node with several processes under Java and librdkafka (NODE_CHAOS="--minutes 30 --seed 1")
	$(BIN)/python -m tests.chaos.processes $(NODE_CHAOS)

# Longer variants of tests in `make test`, with the same requirements. Other tests with this mark have separate targets.
EXTENDED ?= tests/chaos tests/cli tests/client tests/clients tests/groups tests/handlers tests/services/ingest tests/network tests/pipelines/library \
    tests/pipelines/running tests/spark/test_broker_away.py tests/spark/test_killed_driver.py tests/share tests/services/registry
extended: bytecode kernels java-if-possible  #: longer variants of tests: more jobs, faults, templates, seeds (EXTENDED="tests/share")
	$(BIN)/pytest --numprocesses $(TEST_PROCESSES) -m extended $(EXTENDED)
	SIMULATION_SECONDS=60 TIERED_SCENARIOS=60 $(BIN)/pytest tests/simulation -k no_scenario

# The oldest Spark that pyproject.toml allows precedes the pinned one on the path of Python and of Spark's workers.
# The tests are those that use Spark's classes: both connectors, source, sink, runner, SQL definitions, Spark's runner.
OLDEST_SPARK       := .cache/oldest-spark
OLDEST_SPARK_TESTS ?= tests/spark/test_connectors.py tests/spark/test_session.py tests/spark/sink/test_writing.py \
    tests/pipelines/running tests/pipelines/library/test_commands.py tests/pipelines/library/test_activity.py \
    tests/pipelines/lake/test_iceberg.py
spark-oldest: bytecode kernels $(OLDEST_SPARK)/.stamp java-if-possible  #: tests of pipelines with the oldest supported Spark
	PYTHONPATH="$(CURDIR)/$(OLDEST_SPARK)" $(BIN)/pytest --numprocesses $(TEST_PROCESSES) $(OLDEST_SPARK_TESTS)
$(OLDEST_SPARK)/.stamp: requirements/oldest-spark.txt | $(STAMP)
	rm -rf $(OLDEST_SPARK)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --no-deps --target $(OLDEST_SPARK) -r requirements/oldest-spark.txt
	@touch $@

spark-clusters: bytecode kernels $(YARN_STAMP) $(KUBERNETES_STAMP)  #: Spark standalone with killed, suspended and slow executors, YARN, Kubernetes, Connect
	$(BIN)/pytest -m extended tests/spark/test_standalone.py tests/spark/test_cluster_failures.py tests/spark/test_connect_server.py \
	    tests/spark/test_yarn.py tests/spark/test_kubernetes.py

hdfs: bytecode kernels $(HDFS_STAMP) $(S3A_STAMP)  #: pipelines on a real NameNode and DataNodes, one of which is killed; state there and on S3A with kills
	$(BIN)/pytest -m extended tests/pipelines/lake/test_hdfs.py tests/pipelines/lake/test_remote_state.py

mirrors: bytecode kernels java $(MIRROR_MAKER_STAMP)  #: mirrors with Apache Kafka and MirrorMaker's client
	$(BIN)/pytest tests/services/mirror -m "java or extended"

# What the packages are checked with: schemas, installers, Debian's checker, container runtime and systemd, Helm.
PACKAGING := .cache/packaging/python
packages: bytecode $(PACKAGING)/.stamp  #: build, install and start wheel, container image, Debian package and Helm chart (make packages-install)
	$(BIN)/pytest -m "extended or not extended" tests/packaging tests/cluster/zookeeper/test_jars.py tests/replication/test_rolling_upgrade.py
$(PACKAGING)/.stamp: requirements/packaging.txt | $(STAMP)
	rm -rf $(PACKAGING)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --no-deps --target $(PACKAGING) -r requirements/packaging.txt
	@touch $@

packages-install:  #: install what `make packages` checks with: lintian, runc, umoci, ... (apt-get), helm and kubeconform (go)
	tools/install-programs mmdebstrap umoci runc iproute2:ip lintian systemd-container:systemd-nspawn
	GOBIN="$(abspath .cache/packaging/bin)" go install helm.sh/helm/v3/cmd/helm@v$(HELM_VERSION)
	GOBIN="$(abspath .cache/packaging/bin)" go install github.com/yannh/kubeconform/cmd/kubeconform@v$(KUBECONFORM_VERSION)

# Clients and programs of other projects; tools/install-peers installs each.
peers: bytecode  #: franz-go, sarama, kafka-go, kafkajs and rskafka with a broker (needs go, npm and cargo)
	tools/install-peers go kafkajs rskafka
	$(BIN)/pytest -m extended tests/peers/test_clients.py tests/peers/test_kafka_go_suite.py

stream-processors: bytecode  #: Flink exactly once with a kill, Storm's spout, Flume as source, channel and sink (needs Maven and a JDK)
	tools/install-peers flink storm flume
	$(BIN)/pytest -m extended tests/peers/test_stream_processors.py

endurance: bytecode  #: 3,000 connections for five minutes, a sparse log of 1 TB, minimum rates and latencies (PEER_SECONDS=300; needs go)
	tools/install-peers go
	$(BIN)/pytest -s -m extended tests/peers/test_many_connections.py tests/peers/test_sparse_log.py tests/peers/test_floor.py

connect-worker: bytecode $(JARS_STAMP)  #: Apache's Connect runtime with a plugin
	tools/fetch-jars .cache/connect-plugins org.apache.kafka:connect-file:$(KAFKA_VERSION)
	tools/fetch-jars .cache/connect-rest org.apache.kafka:connect-basic-auth-extension:$(KAFKA_VERSION)
	$(BIN)/pytest -m extended tests/connect/test_worker.py

connect-counterparts: bytecode kernels  #: connectors with kills, OpenSearch, Debezium and MariaDB (make opensearch-install debezium-install mariadb-install)
	OPENSEARCH_FOLDER="$(abspath $(OPENSEARCH))" $(BIN)/pytest -m extended tests/connect/sinks tests/connect/sources

debezium-install:  #: fetch Debezium's connector for PostgreSQL from Maven, 25 MB
	tools/fetch-jars .cache/debezium-$(DEBEZIUM_VERSION) io.debezium:debezium-connector-postgres:$(DEBEZIUM_VERSION):tar.gz:plugin

mariadb-install:  #: install MariaDB (apt-get) and its driver (Maven)
	tools/install-programs mariadb-server:mariadbd
	tools/fetch-jars .cache/mariadb-driver org.mariadb.jdbc:mariadb-java-client:$(MARIADB_DRIVER_VERSION)

opensearch-install:  #: fetch OpenSearch from Maven, 160 MB
	rm -rf $(OPENSEARCH)
	tools/fetch-jars $(OPENSEARCH)-zip org.opensearch.distribution.integ-test-zip:opensearch:$(OPENSEARCH_VERSION):zip
	mv $(OPENSEARCH)-zip/opensearch-$(OPENSEARCH_VERSION) $(OPENSEARCH) && rm -rf $(OPENSEARCH)-zip

registry-clients: $(STAMP)  #: npm's and franz-go's schema registry clients (needs npm and go)
	$(BIN)/python -m tests.services.registry.counterparts

registry-chaos: $(STAMP)  #: kill four schema registries for ten minutes (REGISTRY_CHAOS="--minutes 3")
	$(BIN)/python -m tests.services.registry.chaos $(REGISTRY_CHAOS)

object-stores: $(STAMP)  #: tiering's object store requests with versitygw, azurite and s3mock (make object-stores-install)
	$(BIN)/python -m tests.tiering.counterparts $(OBJECT_STORES)

# Takes two minutes, nearly all of it for Go's compiler.
object-stores-install:  #: install versitygw (go), azurite (npm) and s3mock (Maven)
	GOBIN="$(abspath $(OBJECT_STORES))" go install github.com/versity/versitygw/cmd/versitygw@v$(VERSITYGW_VERSION)
	npm install --silent --prefix $(OBJECT_STORES) azurite@$(AZURITE_VERSION)
	tools/fetch-jars $(OBJECT_STORES) com.adobe.testing:s3mock:$(S3MOCK_VERSION):jar:exec

prometheus-boards: bytecode java  #: published Grafana boards on Prometheus with three brokers and the exporter
	@tools/unpack-packages $(PROMETHEUS)
	$(BIN)/pytest -m extended tests/services/console/exporter/test_prometheus_boards.py

otel-collector: $(STAMP)  #: metrics of a pipeline in the OpenTelemetry Collector (needs go; four minutes for its compiler)
	tools/install-peers otelcol
	$(BIN)/pytest -m extended tests/peers/test_otel_collector.py

ingest-rotations: $(STAMP)  #: 3,000 rotations by logrotate while agent and broker are killed, half an hour (INGEST="--rotations 100")
	$(BIN)/python -m tests.services.ingest.rotation_proof $(INGEST)

flume:  #: install Apache Flume (Maven) and rsyslog with omkafka (apt-get); `make bench` has rows for them
	tools/install-peers flume
	ls /usr/lib/*/rsyslog/omkafka.so >/dev/null 2>&1 || apt-get install --quiet=2 --yes --no-install-recommends rsyslog-kafka
