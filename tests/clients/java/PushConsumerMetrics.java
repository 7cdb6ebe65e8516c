import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A consumer of many partitions that polls until its input ends: PushConsumerMetrics BOOTSTRAP TOPIC PARTITIONS. */
public class PushConsumerMetrics {
    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", words[0], "client.id", "reader", "auto.offset.reset", "earliest",
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class);
        List<TopicPartition> partitions = IntStream.range(0, Integer.parseInt(words[2]))
            .mapToObj(number -> new TopicPartition(words[1], number)).toList();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(partitions);
            while (System.in.available() == 0) {
                consumer.poll(Duration.ofMillis(100));
            }
        }
    }
}
