import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Copies one topic into another, exactly once: SERVERS SOURCE TARGET CHECKPOINTS [CHECKPOINT TO RESTORE]. */
public class FlinkCopy {
    public static void main(String[] args) throws Exception {
        String servers = args[0];
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.storage", "filesystem");
        configuration.setString("execution.checkpointing.dir", "file://" + args[3]);
        configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (args.length > 4) {
            configuration.setString("execution.state-recovery.path", "file://" + args[4]);
        }
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        flink.enableCheckpointing(500, CheckpointingMode.EXACTLY_ONCE);
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(servers)
                .setTopics(args[1])
                .setGroupId("flink-copy")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .setProperty("isolation.level", "read_committed")
                .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(servers)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink-copy-" + args[2])
                .setProperty("transaction.timeout.ms", "60000")
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(args[2])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        flink.execute("copy");
    }
}
