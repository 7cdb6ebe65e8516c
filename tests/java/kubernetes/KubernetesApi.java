import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.client.server.mock.KubernetesCrudDispatcher;
import io.fabric8.kubernetes.client.server.mock.KubernetesMockServer;
import io.fabric8.kubernetes.client.utils.Serialization;
import io.fabric8.mockwebserver.Context;
import io.fabric8.mockwebserver.MockWebServer;
import io.fabric8.mockwebserver.dsl.HttpMethod;
import io.fabric8.mockwebserver.http.Buffer;
import io.fabric8.mockwebserver.http.Headers;
import io.fabric8.mockwebserver.http.MockResponse;
import io.fabric8.mockwebserver.http.RecordedRequest;
import java.io.ByteArrayInputStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;

/** Serves the Kubernetes API on loopback, at the port of the first argument: objects are kept, nothing runs them. */
public class KubernetesApi {
    public static void main(String[] arguments) throws Exception {
        var server = new KubernetesMockServer(
            new Context(), new MockWebServer(), new HashMap<>(), new Objects(), false);
        server.init(InetAddress.getByName("127.0.0.1"), Integer.parseInt(arguments[0]));
        Thread.currentThread().join();
    }

    /** What the library lacks: a new pod is pending, and server-side apply creates an object that does not exist. */
    static class Objects extends KubernetesCrudDispatcher {
        private static final String MERGE = "application/merge-patch+json";
        private static final byte[] PENDING = "{\"status\":{\"phase\":\"Pending\"}}".getBytes(StandardCharsets.UTF_8);

        @Override
        public MockResponse handleCreate(RecordedRequest request) {
            var response = super.handleCreate(request);
            var path = request.getPath().replaceFirst("\\?.*", "");
            if (response.code() < 300 && path.endsWith("/pods")) {
                var pod = Serialization.unmarshal(new ByteArrayInputStream(response.getBody().getBytes()), Pod.class);
                var status = path + "/" + pod.getMetadata().getName() + "/status";
                super.handlePatch(changed(new Buffer(PENDING), status, MERGE));
            }
            return response;
        }

        @Override
        public MockResponse handlePatch(RecordedRequest request) {
            var type = request.getHeader("Content-Type");
            if (type == null || !type.startsWith("application/apply-patch")) {
                return super.handlePatch(request);
            }
            var path = request.getPath().replaceFirst("\\?.*", "");
            var exists = handleGet(path).code() == 200;
            return exists
                ? super.handlePatch(changed(request.getBody(), path, MERGE))
                : handleCreate(changed(request.getBody(), path.replaceFirst("/[^/]*$", ""), "application/json"));
        }

        private static RecordedRequest changed(Buffer body, String path, String type) {
            var headers = Headers.builder().set("Content-Type", type).build();
            return new RecordedRequest("HTTP/1.1", HttpMethod.PATCH, path, headers, body);
        }
    }
}
