import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/** Kafka's own record classes, as a program: what they read of a file, and files that they write. */
public class RecordFile {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        Path source = Path.of(args[1]);
        if (args[0].equals("read")) {
            read(source);
        } else {
            rewrite(source, Path.of(args[2]));
        }
    }

    /** One line for each record: batch facts, offset, timestamp, key, value, headers; bytes in hex. */
    private static void read(Path source) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (MutableRecordBatch batch : load(source).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                out.println(String.join(",", batch.compressionType().name, String.valueOf(batch.isControlBatch()),
                        String.valueOf(record.offset()), String.valueOf(record.timestamp()), hex(record.key()),
                        hex(record.value()), headers(record)));
            }
        }
        out.flush();
    }

    /** The records of the first batch, once in each codec, and then a commit marker. */
    private static void rewrite(Path source, Path target) throws Exception {
        RecordBatch original = load(source).batches().iterator().next();
        try (FileChannel channel = FileChannel.open(target, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            long offset = 0;
            for (CompressionType type : CompressionType.values()) {
                ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
                MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE,
                        Compression.of(type).build(), TimestampType.CREATE_TIME, offset, 0L, 5L, (short) 1, 0, true, 2);
                for (Record record : original) {
                    builder.append(record.timestamp(), record.key(), record.value(), record.headers());
                    offset++;
                }
                channel.write(builder.build().buffer());
            }
            EndTransactionMarker marker = new EndTransactionMarker(ControlRecordType.COMMIT, 9);
            channel.write(MemoryRecords.withEndTransactionMarker(offset, 1700000000000L, 2, 5L, (short) 1, marker).buffer());
        }
    }

    private static MemoryRecords load(Path path) throws Exception {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(path)));
    }

    private static String headers(Record record) {
        List<String> texts = new ArrayList<>();
        for (Header header : record.headers()) {
            byte[] value = header.value();
            texts.add(header.key() + "=" + (value == null ? "null" : HEX.formatHex(value)));
        }
        return String.join(";", texts);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "null";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
