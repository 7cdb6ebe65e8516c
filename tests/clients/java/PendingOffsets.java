import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** Commits offset 10 in a transaction, and offset 20 in the next, which it aborts after a line on its input. */
public class PendingOffsets {
    @SuppressWarnings("removal") // a group without members has no other way
    public static void main(String[] args) throws Exception {
        TopicPartition place = new TopicPartition(args[1], 0);
        ConsumerGroupMetadata group = new ConsumerGroupMetadata(args[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("transactional.id", args[3]);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(10)), group);
            producer.commitTransaction();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(20)), group);
            System.out.println("pending");
            input.readLine();
            producer.abortTransaction();
            System.out.println("aborted");
        }
    }
}
