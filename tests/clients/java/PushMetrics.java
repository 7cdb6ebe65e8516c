import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer that writes until its input ends: PushMetrics BOOTSTRAP CLIENT_ID. Prints its client instance id. */
public class PushMetrics {
    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", words[0], "client.id", words[1],
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            System.out.println(producer.clientInstanceId(Duration.ofSeconds(60)));
            System.out.flush();
            while (System.in.available() == 0) {
                producer.send(new ProducerRecord<>("orders", "one")).get();
                Thread.sleep(20);
            }
        }
    }
}
