import java.time.Duration;
import java.util.Map;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints the offsets of a group as MirrorMaker 2's own client reads them: BOOTSTRAP ALIAS GROUP. */
public class TranslateOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", arguments[0]);
        RemoteClusterUtils.translateOffsets(properties, arguments[1], arguments[2], Duration.ofSeconds(30))
            .forEach((place, offset) -> System.out.println(place + "=" + offset.offset()));
    }
}
