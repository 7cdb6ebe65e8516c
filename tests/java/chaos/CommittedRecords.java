import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * All that a consumer with read_committed sees of a topic, to its end: a line of partition and value for each record.
 *
 * <p>Arguments: a file with settings of clients, and the topic.
 */
public final class CommittedRecords {
    public static void main(String[] args) throws IOException {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(args[0]));
                BufferedWriter output = new BufferedWriter(new OutputStreamWriter(System.out))) {
            List<TopicPartition> places = consumer.partitionsFor(args[1]).stream()
                    .map(found -> new TopicPartition(found.topic(), found.partition()))
                    .toList();
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places); // of what is committed
            while (places.stream().anyMatch(place -> consumer.position(place) < ends.get(place))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    output.write(record.partition() + " " + record.value() + "\n");
                }
            }
        }
    }

    private static Properties settings(String file) throws IOException {
        Properties settings = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(file))) {
            settings.load(reader);
        }
        settings.put("isolation.level", "read_committed");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return settings;
    }
}
