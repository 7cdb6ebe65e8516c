import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/** What a transactional application does with Kafka's own client; each line of output is one fact. */
public class Transactions {
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String input = args[1], output = args[2];
        int count = Integer.parseInt(args[3]);
        commitsAndAborts(input);
        System.out.println("committed " + read(input, 4));
        transform(input, output);
        System.out.println("transformed " + read(output, 4));
        fencing(output);
        measure(input, count);
    }

    static KafkaProducer<String, String> producer(String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(settings);
    }

    static KafkaConsumer<String, String> consumer(String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(settings);
    }

    static void commitsAndAborts(String topic) throws Exception {
        try (KafkaProducer<String, String> producer = producer("java-writer")) {
            producer.initTransactions();
            for (int round = 0; round < 2; round++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, "k", "kept-" + round));
                producer.send(new ProducerRecord<>(topic, 1, "k", "kept too-" + round));
                producer.commitTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, "k", "dropped-" + round)).get();
                producer.abortTransaction();
                producer.beginTransaction();  // nothing is sent
                producer.abortTransaction();
            }
        }
    }

    static TreeSet<String> read(String topic, int count) {
        TreeSet<String> values = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer = consumer("unused")) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(p -> partitions.add(new TopicPartition(topic, p.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long end = System.currentTimeMillis() + 10_000;
            while (values.size() < count && System.currentTimeMillis() < end)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200)))
                    values.add(record.value());
        }
        return values;
    }

    static void transform(String input, String output) {
        try (KafkaProducer<String, String> producer = producer("java-transformer");
             KafkaConsumer<String, String> consumer = consumer("java-transformers")) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            int done = 0;
            while (done < 4) {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    producer.send(new ProducerRecord<>(output, 0, record.key(), record.value().toUpperCase()));
                    TopicPartition place = new TopicPartition(record.topic(), record.partition());
                    offsets.put(place, new OffsetAndMetadata(record.offset() + 1));
                    done++;
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
            }
            System.out.println("offsets " + consumer.committed(consumer.assignment()).size());
        }
    }

    static void fencing(String topic) throws Exception {
        try (KafkaProducer<String, String> zombie = producer("java-fenced");
             KafkaProducer<String, String> successor = producer("java-fenced")) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, 0, "k", "of the zombie")).get();
            successor.initTransactions();
            try {
                zombie.send(new ProducerRecord<>(topic, 0, "k", "too late"));
                zombie.commitTransaction();
                System.out.println("the zombie committed");
            } catch (ProducerFencedException fenced) {
                System.out.println("fenced");
            } catch (KafkaException other) {
                System.out.println("refused " + other);
            }
            successor.beginTransaction();
            successor.abortTransaction();
        }
    }

    static void measure(String topic, int count) {
        try (KafkaProducer<String, String> producer = producer("java-measured")) {
            producer.initTransactions();
            long start = System.nanoTime();
            for (int number = 0; number < count; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, "k", "value-" + number));
                producer.commitTransaction();
            }
            System.out.println("rate " + Math.round(count / ((System.nanoTime() - start) / 1e9)));
        }
    }
}
