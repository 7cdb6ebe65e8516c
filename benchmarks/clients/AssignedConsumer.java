import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What kafka-consumer-perf-test does, but with partitions it assigns itself: for brokers that serve no groups.
 * Arguments: bootstrap, topic, records. Prints records per second from the first poll to the last record.
 */
public class AssignedConsumer {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("receive.buffer.bytes", "2097152"); // the default of kafka-consumer-perf-test
        settings.put("check.crcs", "false"); // likewise
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            List<TopicPartition> partitions = consumer.partitionsFor(args[1]).stream()
                .map(info -> new TopicPartition(info.topic(), info.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            System.out.println(recordsPerSecond(consumer, Long.parseLong(args[2])));
        }
    }

    private static double recordsPerSecond(KafkaConsumer<byte[], byte[]> consumer, long wanted) {
        long begin = System.nanoTime();
        long read = 0;
        while (read < wanted) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(10));
            if (records.isEmpty()) throw new IllegalStateException("only " + read + " records came");
            for (var record : records) read++;
        }
        return read * 1e9 / (System.nanoTime() - begin);
    }
}
