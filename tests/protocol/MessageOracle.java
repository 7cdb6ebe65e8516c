import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/** Reads lines of (class, version, message as JSON) and writes the bytes Kafka makes of each, in hex. */
public class MessageOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] columns = line.split("\t", 3);
            try {
                output.println(encode(columns[0], Short.parseShort(columns[1]), mapper.readTree(columns[2])));
            } catch (ReflectiveOperationException | RuntimeException error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                output.println("error: " + cause.toString().replace('\n', ' '));
            }
        }
        output.flush();
    }

    private static String encode(String className, short version, JsonNode json) throws ReflectiveOperationException {
        Class<?> converter = Class.forName(className + "JsonConverter");
        Message message = (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
