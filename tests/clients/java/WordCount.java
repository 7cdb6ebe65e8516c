import java.io.IOException;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words: lines are split, repartitioned by word, and counted in a store with a changelog.
 *
 * Arguments: bootstrap servers, application id, input topic, output topic, and any settings as key=value. Prints each
 * state of the application, and which instances it knows for each byte of its standard input; ends with that.
 */
public class WordCount {
    public static void main(String[] args) throws IOException {
        var settings = new Properties();
        settings.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0],
            StreamsConfig.APPLICATION_ID_CONFIG, args[1],
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
                "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100,
            StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1,
            "auto.offset.reset", "earliest"));
        for (var setting : Arrays.asList(args).subList(4, args.length)) {
            var parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        var streams = new KafkaStreams(topology(args[2], args[3]), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        while (System.in.read() >= 0) {
            for (var instance : streams.metadataForAllStreamsClients()) {
                System.out.printf("%s reads %d%n", instance.hostInfo(), instance.topicPartitions().size());
            }
        }
        // With the classic protocol an instance would stay a member until its session is over.
        streams.close(CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP));
        System.out.println("closed");
    }

    private static org.apache.kafka.streams.Topology topology(String input, String output) {
        var builder = new StreamsBuilder();
        builder.<String, String>stream(input)
            .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }
}
