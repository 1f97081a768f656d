import io.modelcontextprotocol.json.TypeRef;
import io.modelcontextprotocol.spec.McpSchema;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Answers each test vector on a line with what the SDK writes of it, with its error, or with null for an unknown type. */
final class PeerJudge {
    private static final TypeRef<Map<String, Object>> OBJECT = new TypeRef<>() {};

    /** The SDK's types, by the names of the schema: of the params of a message, or of a result. */
    private static final Map<String, Class<?>> TYPES = Map.ofEntries(
            Map.entry("CallToolRequest", McpSchema.CallToolRequest.class),
            Map.entry("CompleteRequest", McpSchema.CompleteRequest.class),
            Map.entry("CreateMessageRequest", McpSchema.CreateMessageRequest.class),
            Map.entry("ElicitRequest", McpSchema.ElicitFormRequest.class), // Of mode url: see `type`.
            Map.entry("GetPromptRequest", McpSchema.GetPromptRequest.class),
            Map.entry("InitializeRequest", McpSchema.InitializeRequest.class),
            Map.entry("ListPromptsRequest", McpSchema.PaginatedRequest.class),
            Map.entry("ListResourceTemplatesRequest", McpSchema.PaginatedRequest.class),
            Map.entry("ListResourcesRequest", McpSchema.PaginatedRequest.class),
            Map.entry("ListToolsRequest", McpSchema.PaginatedRequest.class),
            Map.entry("ReadResourceRequest", McpSchema.ReadResourceRequest.class),
            Map.entry("SetLevelRequest", McpSchema.SetLevelRequest.class),
            Map.entry("SubscribeRequest", McpSchema.SubscribeRequest.class),
            Map.entry("UnsubscribeRequest", McpSchema.UnsubscribeRequest.class),
            Map.entry("ElicitationCompleteNotification", McpSchema.ElicitationCompleteNotification.class),
            Map.entry("LoggingMessageNotification", McpSchema.LoggingMessageNotification.class),
            Map.entry("ProgressNotification", McpSchema.ProgressNotification.class),
            Map.entry("ResourceUpdatedNotification", McpSchema.ResourcesUpdatedNotification.class),
            Map.entry("CallToolResult", McpSchema.CallToolResult.class),
            Map.entry("CompleteResult", McpSchema.CompleteResult.class),
            Map.entry("CreateMessageResult", McpSchema.CreateMessageResult.class),
            Map.entry("ElicitResult", McpSchema.ElicitResult.class),
            Map.entry("GetPromptResult", McpSchema.GetPromptResult.class),
            Map.entry("InitializeResult", McpSchema.InitializeResult.class),
            Map.entry("ListPromptsResult", McpSchema.ListPromptsResult.class),
            Map.entry("ListResourceTemplatesResult", McpSchema.ListResourceTemplatesResult.class),
            Map.entry("ListResourcesResult", McpSchema.ListResourcesResult.class),
            Map.entry("ListRootsResult", McpSchema.ListRootsResult.class),
            Map.entry("ListToolsResult", McpSchema.ListToolsResult.class),
            Map.entry("ReadResourceResult", McpSchema.ReadResourceResult.class));

    record Vector(String type, String of, String part, boolean enveloped, Map<String, Object> instance) {}

    static void judge() throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Vector vector = Peer.JSON.readValue(line, Vector.class);
            answers.println(Peer.JSON.writeValueAsString(TYPES.containsKey(vector.type()) ? answer(vector) : null));
        }
        answers.flush();
    }

    private static Map<String, Object> answer(Vector vector) {
        try {
            return Map.of("written", written(vector));
        } catch (IOException | RuntimeException error) {
            return Map.of("error", String.valueOf(error.getMessage()));
        }
    }

    private static Object written(Vector vector) throws IOException {
        if (vector.part().equals("result")) {
            return read(TYPES.get(vector.type()), vector.instance());
        }
        if (!vector.of().equals(vector.instance().get("method"))) {
            throw new IOException("another method");
        }
        Object params = vector.instance().get("params");
        if (vector.enveloped()) {
            params = params(vector);
        }
        if (params == null) { // The SDK's handlers get null: those of lists do not look at it, the others fail.
            if (TYPES.get(vector.type()) == McpSchema.PaginatedRequest.class) {
                return vector.instance();
            }
            throw new IOException("missing params");
        }
        Map<String, Object> message = new HashMap<>(vector.instance());
        message.put("params", read(type(vector, params), params));
        return message;
    }

    /** Read the envelope as a transport does, and return its params. */
    private static Object params(Vector vector) throws IOException {
        String text = Peer.JSON.writeValueAsString(vector.instance());
        McpSchema.JSONRPCMessage message = McpSchema.deserializeJsonRpcMessage(Peer.JSON, text);
        if (vector.part().equals("request") && message instanceof McpSchema.JSONRPCRequest request) {
            return request.params();
        }
        if (vector.part().equals("notification") && message instanceof McpSchema.JSONRPCNotification notification) {
            return notification.params();
        }
        throw new IOException("another kind of message");
    }

    private static Class<?> type(Vector vector, Object params) {
        boolean url = vector.type().equals("ElicitRequest") && params instanceof Map<?, ?> map && "url".equals(map.get("mode"));
        return url ? McpSchema.ElicitUrlRequest.class : TYPES.get(vector.type());
    }

    /** Return what the SDK writes of a value that it has read as a type: as it reads params, and the result of a call. */
    private static Object read(Class<?> type, Object value) throws IOException {
        Object typed = Peer.JSON.convertValue(value, type);
        return Peer.JSON.readValue(Peer.JSON.writeValueAsString(typed), OBJECT);
    }
}
