import io.fabric8.kubernetes.client.server.mock.KubernetesCrudDispatcher;
import io.fabric8.kubernetes.client.server.mock.KubernetesMockServer;
import io.fabric8.mockwebserver.Context;
import io.fabric8.mockwebserver.MockWebServer;
import io.fabric8.mockwebserver.dsl.HttpMethod;
import io.fabric8.mockwebserver.http.Headers;
import io.fabric8.mockwebserver.http.MockResponse;
import io.fabric8.mockwebserver.http.RecordedRequest;
import java.net.InetAddress;
import java.util.HashMap;

/** Serves the Kubernetes API on loopback, at the port of the first argument: objects are kept, nothing runs them. */
public class KubernetesApi {
    public static void main(String[] arguments) throws Exception {
        var server = new KubernetesMockServer(
            new Context(), new MockWebServer(), new HashMap<>(), new Objects(), false);
        server.init(InetAddress.getByName("127.0.0.1"), Integer.parseInt(arguments[0]));
        Thread.currentThread().join();
    }

    /** Server-side apply creates an object that does not exist, which the library lacks. */
    static class Objects extends KubernetesCrudDispatcher {
        @Override
        public MockResponse handlePatch(RecordedRequest request) {
            var type = request.getHeader("Content-Type");
            if (type == null || !type.startsWith("application/apply-patch")) {
                return super.handlePatch(request);
            }
            var path = request.getPath().replaceFirst("\\?.*", "");
            var exists = handleGet(path).code() == 200;
            return exists
                ? super.handlePatch(changed(request, path, "application/merge-patch+json"))
                : handleCreate(changed(request, path.replaceFirst("/[^/]*$", ""), "application/json"));
        }

        private static RecordedRequest changed(RecordedRequest request, String path, String type) {
            var headers = Headers.builder().set("Content-Type", type).build();
            return new RecordedRequest("HTTP/1.1", HttpMethod.PATCH, path, headers, request.getBody());
        }
    }
}
