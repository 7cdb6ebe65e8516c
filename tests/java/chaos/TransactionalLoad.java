import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Small transactions until SIGTERM, every seventh of which is aborted on purpose.
 *
 * <p>Each line of output tells what became of one: {@code committed}, {@code aborted} or {@code unknown}, and its records as
 * {@code partition:value}. Reasons go to the error output.
 */
public final class TransactionalLoad {
    private static final int PER_TRANSACTION = 5;
    private static final int ABORT_EACH = 7;
    private static final long PACE_MS = 2;
    private static final int ATTEMPTS = 3; // each may block for max.block.ms, a minute

    private final Properties settings = new Properties();
    private final String topic;
    private final int partitions;
    private volatile boolean stopping;
    private int number;

    private record Sent(int partition, int value) {
        @Override
        public String toString() {
            return partition + ":" + value;
        }
    }

    private TransactionalLoad(String file, String topic, int partitions, String transactionalId) throws IOException {
        this.topic = topic;
        this.partitions = partitions;
        try (Reader reader = Files.newBufferedReader(Path.of(file))) {
            settings.load(reader);
        }
        settings.put("transactional.id", transactionalId);
        settings.put("delivery.timeout.ms", "60000");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        TransactionalLoad load = new TransactionalLoad(args[0], args[1], Integer.parseInt(args[2]), args[3]);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> load.stopAndWaitFor(main)));
        load.run();
    }

    private void stopAndWaitFor(Thread main) {
        stopping = true;
        try {
            main.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() throws InterruptedException {
        KafkaProducer<String, String> producer = newProducer();
        for (int round = 1; !stopping; round++) {
            if (!transact(producer, round % ABORT_EACH == 0)) {
                producer.close(Duration.ZERO);
                producer = newProducer();
            }
        }
        producer.close();
    }

    private KafkaProducer<String, String> newProducer() {
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        insist(producer::initTransactions);
        return producer;
    }

    /** False when the producer is of no more use, and another one must take its place. */
    private boolean transact(KafkaProducer<String, String> producer, boolean onPurpose) throws InterruptedException {
        List<Sent> records = nextRecords();
        boolean committing = false;
        try {
            producer.beginTransaction();
            for (Sent record : records) {
                producer.send(new ProducerRecord<>(topic, record.partition(), null, String.valueOf(record.value())));
                Thread.sleep(PACE_MS);
            }
            if (onPurpose) {
                producer.flush(); // into the log first: what is taken back before it was sent proves nothing
                return abort(producer, records, committing);
            }
            committing = true;
            insist(producer::commitTransaction);
            say("committed", records);
            return true;
        } catch (ApplicationRecoverableException | OutOfOrderSequenceException | AuthorizationException fatal) {
            return giveUp(fatal, records, committing);
        } catch (KafkaException abortable) {
            System.err.println("must abort: " + abortable);
            return abort(producer, records, committing);
        }
    }

    private boolean abort(KafkaProducer<String, String> producer, List<Sent> records, boolean committing) {
        try {
            insist(producer::abortTransaction);
            say("aborted", records);
            return true;
        } catch (KafkaException | IllegalStateException fatal) { // the latter: a commit was sent, only that may be repeated
            return giveUp(fatal, records, committing);
        }
    }

    /** What nobody has tried to commit is never visible, whatever else is not known. */
    private boolean giveUp(RuntimeException reason, List<Sent> records, boolean committing) {
        System.err.println("a new producer: " + reason);
        say(committing ? "unknown" : "aborted", records);
        return false;
    }

    private List<Sent> nextRecords() {
        List<Sent> records = new ArrayList<>();
        for (int count = 0; count < PER_TRANSACTION; count++) {
            number++;
            records.add(new Sent(number % partitions, number));
        }
        return records;
    }

    /** These calls may be repeated when their time is over, and go on where they were. */
    private static void insist(Runnable call) {
        for (int attempt = 1; ; attempt++) {
            try {
                call.run();
                return;
            } catch (TimeoutException e) {
                System.err.println("attempt " + attempt + ": " + e);
                if (attempt == ATTEMPTS) {
                    throw e;
                }
            }
        }
    }

    private static void say(String outcome, List<Sent> records) {
        System.out.println(outcome + " " + records.stream().map(Sent::toString).collect(Collectors.joining(" ")));
    }
}
