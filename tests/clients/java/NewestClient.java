import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.internals.AsyncKafkaConsumer;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData.Subtopology;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData.TaskId;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData.TopicInfo;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceListener;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescription;
import org.apache.kafka.common.message.StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionNode;
import org.apache.kafka.common.message.StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionSubtopology;
import org.apache.kafka.common.serialization.*;

/** What Java's newest client can ask of a broker: NewestClient BOOTSTRAP. Prints a line for each step that went well. */
public class NewestClient {
    static final int RECORDS = 20;
    static String bootstrap;

    static Map<String, Object> with(Object... words) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap,
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class,
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class,
            "auto.offset.reset", "earliest", "enable.metrics.push", "false"));
        for (int i = 0; i < words.length; i += 2) settings.put((String) words[i], words[i + 1]);
        return settings;
    }

    static void said(String step) {
        System.out.println(step);
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        try (Admin admin = Admin.create(with())) {
            topics(admin);
            produce("orders", null);
            check(consume("orders", "classic", "read_uncommitted") == RECORDS, "records for a classic group");
            check(consume("orders", "consumer", "read_uncommitted") == RECORDS, "records for a consumer group");
            said("groups");
            transaction("classic");
            transaction("consumer");
            check(consume("copies", "consumer", "read_committed") == 2 * RECORDS, "copies of both transactions");
            said("transactions");
            queue(admin);
            deadLetters(admin);
            streams(admin);
            warmups(admin);
            administration(admin);
        }
    }

    static void topics(Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic("orders", 2, (short) 1), new NewTopic("copies", 1, (short) 1))).all().get();
        check(admin.describeTopics(List.of("orders")).allTopicNames().get().get("orders").partitions().size() == 2, "partitions");
        check(admin.describeCluster().nodes().get().size() == 1, "one broker");
        admin.createPartitions(Map.of("orders", NewPartitions.increaseTo(3))).all().get();
        said("topics");
    }

    static void produce(String topic, String id) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(with("enable.idempotence", "true"))) {
            for (int i = 0; i < RECORDS; i++) producer.send(new ProducerRecord<>(topic, "key-" + i, "value-" + i)).get();
        }
        said("produce");
    }

    static int consume(String topic, String protocol, String isolation) {
        int found = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                with("group.id", topic + "-" + protocol, "group.protocol", protocol, "isolation.level", isolation))) {
            consumer.subscribe(List.of(topic));
            int wanted = topic.equals("copies") ? 2 * RECORDS : topic.equals("dlq.orders") ? 2 : RECORDS;
            for (int i = 0; i < 300 && found < wanted; i++) found += consumer.poll(Duration.ofMillis(200)).count();
            consumer.commitSync();
        }
        return found;
    }

    /** Reads, writes and commits the offsets in one transaction. */
    static void transaction(String protocol) throws Exception {
        Map<String, Object> reading = with("group.id", "mover-" + protocol, "group.protocol", protocol, "enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading);
             KafkaProducer<String, String> producer = new KafkaProducer<>(with("transactional.id", "mover-" + protocol))) {
            producer.initTransactions();
            consumer.subscribe(List.of("orders"));
            int moved = 0;
            while (moved < RECORDS) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                producer.beginTransaction();
                for (ConsumerRecord<String, String> each : records) producer.send(new ProducerRecord<>("copies", each.key(), each.value()));
                producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                producer.commitTransaction();
                moved += records.count();
            }
        }
        try (Admin admin = Admin.create(with())) {
            long committed = admin.listConsumerGroupOffsets("mover-" + protocol).partitionsToOffsetAndMetadata().get()
                .values().stream().mapToLong(OffsetAndMetadata::offset).sum();
            check(committed == RECORDS, "offsets of the transaction: " + committed);
        }
    }

    static void queue(Admin admin) throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "workers");
        admin.incrementalAlterConfigs(Map.of(group, List.of(
            new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
        int found = 0;
        Map<String, Object> settings = with("group.id", "workers");
        settings.remove("auto.offset.reset");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of("orders"));
            for (int i = 0; i < 300 && found < RECORDS; i++) found += consumer.poll(Duration.ofMillis(200)).count();
            consumer.commitSync();
        }
        check(found == RECORDS, "records for a share group: " + found);
        check(admin.describeShareGroups(List.of("workers")).all().get().size() == 1, "share group");
        said("queue");
    }

    /** A group that has dead letters keeps them at share.version 1; another gets its first at 2. */
    static void deadLetters(Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic("dlq.orders", 1, (short) 1)
            .configs(Map.of("errors.deadletterqueue.group.enable", "true")))).all().get();
        set(admin, "strict", "share.auto.offset.reset", "earliest");
        set(admin, "strict", "errors.deadletterqueue.topic.name", "dlq.orders");
        rejectOne();
        shareVersion(admin, 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
        rejectOne();
        check(consume("dlq.orders", "consumer", "read_uncommitted") == 2, "dead letters");
        try {
            set(admin, "late", "errors.deadletterqueue.topic.name", "dlq.orders");
            throw new AssertionError("first dead letters at share.version 1");
        } catch (java.util.concurrent.ExecutionException expected) {
            check(expected.getCause() instanceof org.apache.kafka.common.errors.InvalidConfigurationException, "" + expected);
        }
        shareVersion(admin, 2, FeatureUpdate.UpgradeType.UPGRADE);
        set(admin, "late", "errors.deadletterqueue.topic.name", "dlq.orders");
        said("dead-letters");
    }

    static void set(Admin admin, String group, String name, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(
            new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)))).all().get();
    }

    static void shareVersion(Admin admin, int level, FeatureUpdate.UpgradeType how) throws Exception {
        admin.updateFeatures(Map.of("share.version", new FeatureUpdate((short) level, how)), new UpdateFeaturesOptions()).all().get();
        FeatureMetadata now = admin.describeFeatures().featureMetadata().get();
        check(now.finalizedFeatures().get("share.version").maxVersionLevel() == level, "finalized: " + now);
        check(now.supportedFeatures().get("share.version").maxVersion() == 2, "supported: " + now);
    }

    static void rejectOne() {
        Map<String, Object> settings = with("group.id", "strict", "share.acknowledgement.mode", "explicit");
        settings.remove("auto.offset.reset");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of("orders"));
            ConsumerRecords<String, String> taken = ConsumerRecords.empty();
            for (int i = 0; i < 300 && taken.isEmpty(); i++) taken = consumer.poll(Duration.ofMillis(200));
            boolean first = true;
            for (ConsumerRecord<String, String> each : taken) {
                consumer.acknowledge(each, first ? AcknowledgeType.REJECT : AcknowledgeType.RELEASE);
                first = false;
            }
            consumer.commitSync();
        }
    }

    /** What Kafka Streams does with the client: a member of a streams group that describes its topology. */
    static void streams(Admin admin) throws Exception {
        TaskId second = new TaskId("0", 1);
        Subtopology reading = new Subtopology(Set.of("orders"), Set.of(), Map.of(), Map.of(), List.of());
        StreamsRebalanceData data = new StreamsRebalanceData(UUID.randomUUID(), Optional.empty(), Optional.empty(),
            Map.of("0", reading), Map.of(), () -> Map.of(second, 7L), () -> Map.of(second, 9L));
        data.setWireTopologyDescription(description());
        ConsumerConfig config = new ConsumerConfig(with("group.id", "app", "group.protocol", "consumer"));
        try (AsyncKafkaConsumer<String, String> consumer = new AsyncKafkaConsumer<>(
                config, new StringDeserializer(), new StringDeserializer(), Optional.of(data))) {
            consumer.subscribe(List.of("orders"), taking(data));
            StreamsGroupDescription found = null;
            for (int i = 0; i < 300 && !(described(found) && data.reconciledAssignment().activeTasks().size() == 3); i++) {
                consumer.poll(Duration.ofMillis(200));
                found = lookedUp(admin);
            }
            check(described(found), "the topology is described: " + found);
            checkDescription(found.topologyDescription().get());
            check(found.assignorName().get().equals("sticky"), "assignor: " + found.assignorName());
            check(data.reconciledAssignment().activeTasks().size() == 3, "tasks: " + data.reconciledAssignment());
            StreamsGroupDescription plain = admin.describeStreamsGroups(List.of("app")).describedGroups().get("app").get();
            check(plain.topologyDescriptionStatus() == StreamsGroupTopologyDescriptionStatus.NOT_REQUESTED, "not asked for");
        }
        said("streams");
    }

    /** Null as long as no member has joined. */
    static StreamsGroupDescription lookedUp(Admin admin) throws Exception {
        try {
            return admin.describeStreamsGroups(List.of("app"), new DescribeStreamsGroupsOptions()
                .includeTopologyDescription(true)).describedGroups().get("app").get();
        } catch (java.util.concurrent.ExecutionException error) {
            check(error.getCause() instanceof org.apache.kafka.common.errors.GroupIdNotFoundException, "" + error);
            return null;
        }
    }

    static boolean described(StreamsGroupDescription group) {
        return group != null && group.topologyDescriptionStatus() == StreamsGroupTopologyDescriptionStatus.AVAILABLE
            && !group.members().isEmpty() && group.members().iterator().next().assignment().activeTasks().size() == 1;
    }

    static TopologyDescription description() {
        TopologyDescriptionNode source = new TopologyDescriptionNode().setName("source").setNodeType((byte) 1).setSourceTopics(List.of("orders")).setSuccessors(List.of("count"));
        TopologyDescriptionNode count = new TopologyDescriptionNode().setName("count").setNodeType((byte) 2).setStores(List.of("counts")).setSuccessors(List.of("sink"));
        TopologyDescriptionNode sink = new TopologyDescriptionNode().setName("sink").setNodeType((byte) 3).setSinkTopic("copies");
        return new TopologyDescription()
            .setSubtopologies(List.of(new TopologyDescriptionSubtopology().setSubtopologyId("0").setNodes(List.of(source, count, sink))))
            .setGlobalStores(List.of());
    }

    static void checkDescription(StreamsGroupTopologyDescription found) {
        String text = found.toString();
        for (String word : List.of("source", "count", "counts", "sink", "orders", "copies"))
            check(text.contains(word), word + " in " + text);
    }

    static StreamsRebalanceListener taking(StreamsRebalanceData data) {
        return new StreamsRebalanceListener() {
            public void onTasksRevoked(Set<TaskId> tasks) {}
            public void onTasksAssigned(StreamsRebalanceData.Assignment assignment) { data.setReconciledAssignment(assignment); }
            public void onAllTasksLost() {}
        };
    }

    /** A member of a streams group with the client of Kafka Streams, whose tasks have a changelog. */
    static class Counting implements AutoCloseable {
        final Map<TaskId, Long> restored = new HashMap<>(), ends = new HashMap<>();
        final StreamsRebalanceData data;
        final AsyncKafkaConsumer<String, String> consumer;

        Counting(Map<String, String> tags) {
            TopicInfo changelog = new TopicInfo(Optional.empty(), Optional.of((short) 1), Map.of("cleanup.policy", "compact"));
            Subtopology counting = new Subtopology(Set.of("clicks"), Set.of(), Map.of(), Map.of("warm-counts", changelog), List.of());
            data = new StreamsRebalanceData(UUID.randomUUID(), Optional.empty(), Optional.empty(),
                Map.of("0", counting), tags, () -> Map.copyOf(restored), () -> Map.copyOf(ends));
            ConsumerConfig config = new ConsumerConfig(with("group.id", "warm", "group.protocol", "consumer"));
            consumer = new AsyncKafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer(), Optional.of(data));
            consumer.subscribe(List.of("clicks"), taking(data));
        }

        Set<TaskId> active() { return data.reconciledAssignment().activeTasks(); }

        Set<TaskId> warmups() { return data.reconciledAssignment().warmupTasks(); }

        /** Reads the changelogs of warm-up tasks, at most some records of each, and reports the position. */
        void restore(long records) {
            for (TaskId task : warmups()) {
                TopicPartition changelog = new TopicPartition("warm-counts", task.partitionId());
                try (KafkaConsumer<String, String> reading = new KafkaConsumer<>(with("max.poll.records", "5"))) {
                    reading.assign(List.of(changelog));
                    reading.seekToBeginning(List.of(changelog));
                    long end = reading.endOffsets(List.of(changelog)).get(changelog);
                    while (reading.position(changelog) < Math.min(records, end)) reading.poll(Duration.ofMillis(200));
                    restored.put(task, reading.position(changelog));
                    ends.put(task, end);
                }
            }
        }

        public void close() { consumer.close(); }
    }

    /** A task moves when its new owner has restored the state; until then its old owner processes. */
    static void warmups(Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic("clicks", 2, (short) 1))).all().get();
        set(admin, "warm", "streams.acceptable.recovery.lag", "0");
        set(admin, "warm", "streams.rack.aware.assignment.tags", "zone");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "warm");
        check(admin.describeConfigs(List.of(group)).all().get().get(group).get("streams.num.warmup.replicas").value().equals("2"), "described");
        try (Counting first = new Counting(Map.of())) {
            for (int i = 0; i < 300 && first.active().size() < 2; i++) first.consumer.poll(Duration.ofMillis(100));
            check(first.active().size() == 2, "all tasks: " + first.active());
            check(first.data.statuses().toString().contains("[zone]"), "missing tag: " + first.data.statuses());
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(with())) {
                for (int i = 0; i < 2 * RECORDS; i++) producer.send(new ProducerRecord<>("warm-counts", i % 2, "key-" + i, "1")).get();
            }
            try (Counting second = new Counting(Map.of("zone", "b"))) {
                for (int i = 0; i < 300 && second.warmups().isEmpty(); i++) poll(first, second);
                Set<TaskId> moving = Set.copyOf(second.warmups());
                check(moving.size() == 1 && first.active().size() == 2, "a warm-up task: " + second.data.reconciledAssignment());
                second.restore(RECORDS / 2);
                for (int i = 0; i < 20; i++) poll(first, second);
                check(first.active().size() == 2 && second.active().isEmpty(), "moved too early: " + second.data.reconciledAssignment());
                second.restore(RECORDS);
                for (int i = 0; i < 300 && second.active().isEmpty(); i++) poll(first, second);
                check(second.active().equals(moving) && second.warmups().isEmpty(), "moved: " + second.data.reconciledAssignment());
                check(first.active().size() == 1 && !first.active().equals(moving), "kept: " + first.data.reconciledAssignment());
                check(second.data.statuses().isEmpty(), "statuses: " + second.data.statuses());
            }
        }
        said("warm-ups");
    }

    static void poll(Counting first, Counting second) {
        first.consumer.poll(Duration.ofMillis(50));
        second.consumer.poll(Duration.ofMillis(50));
    }

    static void administration(Admin admin) throws Exception {
        check(admin.listGroups().all().get().size() >= 6, "groups");
        check(!admin.listTransactions().all().get().isEmpty(), "transactions");
        admin.describeProducers(List.of(new TopicPartition("orders", 0))).all().get();
        admin.describeLogDirs(List.of(1)).allDescriptions().get();
        admin.describeFeatures().featureMetadata().get();
        admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, "orders"))).all().get();
        admin.listOffsets(Map.of(new TopicPartition("orders", 0), OffsetSpec.maxTimestamp())).all().get();
        admin.deleteRecords(Map.of(new TopicPartition("copies", 0), RecordsToDelete.beforeOffset(1))).all().get();
        admin.deleteConsumerGroups(List.of("orders-classic", "orders-consumer")).all().get();
        try {
            admin.deleteConsumerGroups(List.of("never-seen")).all().get();
            throw new AssertionError("a group that is not there was deleted");
        } catch (java.util.concurrent.ExecutionException expected) {
            check(expected.getCause() instanceof org.apache.kafka.common.errors.GroupIdNotFoundException, "" + expected);
        }
        admin.deleteStreamsGroups(List.of("app")).all().get();
        try {
            admin.unregisterController(1).all().get();
            throw new AssertionError("a controller of KRaft was unregistered");
        } catch (java.util.concurrent.ExecutionException expected) {
            check(expected.getCause() instanceof org.apache.kafka.common.errors.UnsupportedVersionException, "" + expected);
        }
        admin.deleteTopics(List.of("copies")).all().get(30, TimeUnit.SECONDS);
        said("administration");
    }
}
