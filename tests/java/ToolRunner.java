import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after another in one JVM, because a JVM takes longer to start than most tools to do their work.
 *
 * Reads calls from its input: the number of words, the words (a class and its arguments), what the tool is to read.
 * Writes for each the exit code, the output and the errors. Texts are UTF-8, each after its length.
 *
 * The jars named by its arguments hold the tools. They are loaded afresh for each call, because tools keep state in
 * static fields; all that they use is on the class path, and stays.
 */
public final class ToolRunner {
    /** What a tool meets where it would have ended the JVM. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private final URL[] tools;
    private final List<Runnable> hooks = new ArrayList<>();
    private Integer code;

    private ToolRunner(URL[] tools) {
        this.tools = tools;
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
    }

    public static void main(String[] jars) throws IOException {
        URL[] tools = new URL[jars.length];
        for (int index = 0; index < jars.length; index++) {
            tools[index] = Path.of(jars[index]).toUri().toURL();
        }
        DataInputStream calls = new DataInputStream(System.in);
        DataOutputStream results = new DataOutputStream(System.out);
        try {
            new ToolRunner(tools).serve(calls, results);
        } catch (EOFException nobodyCallsAnyMore) {
            System.exit(0); // whatever threads the tools may have left behind
        }
    }

    private void serve(DataInputStream calls, DataOutputStream results) throws IOException {
        while (true) {
            String[] words = new String[calls.readInt()];
            for (int index = 0; index < words.length; index++) {
                words[index] = new String(readBytes(calls), StandardCharsets.UTF_8);
            }
            ByteArrayInputStream input = new ByteArrayInputStream(readBytes(calls));
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            results.writeInt(runWith(words, input, output, errors));
            writeBytes(results, output.toByteArray());
            writeBytes(results, errors.toByteArray());
            results.flush();
        }
    }

    private static byte[] readBytes(DataInputStream stream) throws IOException {
        byte[] bytes = new byte[stream.readInt()];
        stream.readFully(bytes);
        return bytes;
    }

    private static void writeBytes(DataOutputStream stream, byte[] bytes) throws IOException {
        stream.writeInt(bytes.length);
        stream.write(bytes);
    }

    private int runWith(String[] words, InputStream input, ByteArrayOutputStream output, ByteArrayOutputStream errors)
            throws IOException {
        InputStream usualInput = System.in;
        PrintStream usualOutput = System.out;
        PrintStream usualErrors = System.err;
        System.setIn(input);
        System.setOut(new PrintStream(output, true));
        System.setErr(new PrintStream(errors, true));
        try {
            return run(words);
        } finally {
            System.out.flush();
            System.err.flush();
            System.setIn(usualInput);
            System.setOut(usualOutput);
            System.setErr(usualErrors);
        }
    }

    private int run(String[] words) throws IOException {
        code = null;
        hooks.clear();
        Thread thread = Thread.currentThread();
        ClassLoader usual = thread.getContextClassLoader();
        try (URLClassLoader loader = new URLClassLoader(tools, usual)) {
            thread.setContextClassLoader(loader);
            callMain(loader.loadClass(words[0]), List.of(words).subList(1, words.length));
            hooks.forEach(Runnable::run);
        } catch (ReflectiveOperationException notATool) {
            notATool.printStackTrace();
            code = 1;
        } finally {
            thread.setContextClassLoader(usual);
        }
        return code == null ? 0 : code;
    }

    /** A tool ends by returning, by exiting, or by an error that nobody caught: then a JVM shows the trace. */
    private void callMain(Class<?> tool, List<String> arguments) throws ReflectiveOperationException {
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException error) {
            if (code == null) {
                error.getCause().printStackTrace();
                code = 1;
            }
        }
    }

    private void end(int status) {
        if (code == null) {
            code = status; // some tools catch everything and exit once more
        }
        throw new Ended();
    }
}
