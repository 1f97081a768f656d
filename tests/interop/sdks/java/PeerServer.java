import io.modelcontextprotocol.server.McpServer;
import io.modelcontextprotocol.server.McpServerFeatures;
import io.modelcontextprotocol.server.McpSyncServer;
import io.modelcontextprotocol.server.McpSyncServerExchange;
import io.modelcontextprotocol.server.transport.HttpServletSseServerTransportProvider;
import io.modelcontextprotocol.server.transport.HttpServletStreamableServerTransportProvider;
import io.modelcontextprotocol.server.transport.StdioServerTransportProvider;
import io.modelcontextprotocol.spec.McpSchema;
import io.modelcontextprotocol.spec.McpSchema.CallToolRequest;
import io.modelcontextprotocol.spec.McpSchema.CallToolResult;
import jakarta.servlet.Servlet;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** A server with a feature of each kind. */
final class PeerServer {
    private static final Map<String, Object> NOTHING = Map.of("type", "object");
    private static final Map<String, Object> NUMBER = Map.of("type", "integer");
    private static final Map<String, Object> MESSAGE =
            Map.of("type", "object", "properties", Map.of("message", Map.of("type", "string")));

    static void serve(String transport, List<String> revisions) throws Exception {
        if (transport.equals("stdio")) {
            List<String> versions = revisions.isEmpty() ? Peer.REVISIONS : revisions;
            CountDownLatch ended = new CountDownLatch(1);
            InputStream input = new FilterInputStream(System.in) {  // The SDK goes on when its input has ended.
                @Override
                public int read(byte[] bytes, int offset, int length) throws IOException {
                    int count = super.read(bytes, offset, length);
                    if (count < 0) {
                        ended.countDown();
                    }
                    return count;
                }
            };
            built(McpServer.sync(new StdioServerTransportProvider(Peer.JSON, input, System.out) {
                @Override
                public List<String> protocolVersions() {
                    return versions;
                }
            }));
            ended.await();
            Thread.sleep(500);  // For the answers that are on their way.
            System.exit(0);
        }
        var streamable = HttpServletStreamableServerTransportProvider.builder().mcpEndpoint("/mcp").build();
        var events = HttpServletSseServerTransportProvider.builder().sseEndpoint("/sse").messageEndpoint("/message").build();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", null);
        added(context, "mcp", streamable, "/mcp");
        added(context, "sse", events, "/sse", "/message");
        built(McpServer.sync(events));
        built(McpServer.sync(streamable));
        tomcat.start();
        System.err.println("listening at http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/mcp");
        tomcat.getServer().await();
    }

    private static void added(Context context, String name, Servlet servlet, String... paths) {
        Tomcat.addServlet(context, name, servlet).setAsyncSupported(true);
        for (String path : paths) {
            context.addServletMappingDecoded(path, name);
        }
    }

    private static CallToolResult text(String words) {
        return CallToolResult.builder().addTextContent(words).build();
    }

    private static McpServerFeatures.SyncToolSpecification tool(
            String name, Map<String, Object> schema, BiFunction<McpSyncServerExchange, CallToolRequest, CallToolResult> handler) {
        return new McpServerFeatures.SyncToolSpecification(McpSchema.Tool.builder(name, schema).build(), handler);
    }

    private static void built(McpServer.SyncSpecification<?> specification) {
        AtomicReference<McpSyncServer> server = new AtomicReference<>();
        var prompt = McpSchema.PromptReference.builder("question").build();
        server.set(specification
                .serverInfo(McpSchema.Implementation.builder("peer", "1.2").title("A peer").build())
                .instructions("Use everything.")
                .capabilities(McpSchema.ServerCapabilities.builder().tools(true).resources(false, false).prompts(false)
                        .completions().logging().build())
                .tools(adding(), tool("fail", NOTHING, (exchange, request) ->
                                CallToolResult.builder().addTextContent("it went wrong").isError(true).build()),
                        tool("log", NOTHING, PeerServer::log), tool("work", NOTHING, PeerServer::work),
                        tool("sample", MESSAGE, PeerServer::sample), tool("ask", MESSAGE, PeerServer::ask),
                        tool("roots", NOTHING, (exchange, request) -> text(exchange.listRoots().roots().get(0).uri())),
                        tool("change", NOTHING, (exchange, request) -> {
                            server.get().addTool(tool("late", NOTHING, (late, again) -> text("late")));
                            return text("changed");
                        }))
                .resources(new McpServerFeatures.SyncResourceSpecification(McpSchema.Resource.builder("note://one", "one")
                        .mimeType("text/plain").build(), (exchange, request) -> contents(request)))
                .resourceTemplates(new McpServerFeatures.SyncResourceTemplateSpecification(
                        McpSchema.ResourceTemplate.builder("note://about/{thing}", "about").build(),
                        (exchange, request) -> contents(request)))
                .prompts(new McpServerFeatures.SyncPromptSpecification(McpSchema.Prompt.builder("question")
                        .arguments(List.of(McpSchema.PromptArgument.builder("thing").required(true).build())).build(),
                        (exchange, request) -> question(request)))
                .completions(new McpServerFeatures.SyncCompletionSpecification(prompt, (exchange, request) -> {
                    String start = request.argument().value();
                    return new McpSchema.CompleteResult(
                            new McpSchema.CompleteResult.CompleteCompletion(List.of(start + "ea", start + "in"), 2, false));
                }))
                .build());
    }

    private static McpServerFeatures.SyncToolSpecification adding() {
        McpSchema.Tool tool = McpSchema.Tool.builder("add", Map.of("type", "object",
                        "properties", Map.of("a", NUMBER, "b", NUMBER), "required", List.of("a", "b")))
                .title("Add").description("Add two numbers.")
                .annotations(McpSchema.ToolAnnotations.builder().readOnlyHint(true).build())
                .outputSchema(Map.of("type", "object", "properties", Map.of("sum", NUMBER))).build();
        return new McpServerFeatures.SyncToolSpecification(tool, (exchange, request) -> {
            int sum = (Integer) request.arguments().get("a") + (Integer) request.arguments().get("b");
            return CallToolResult.builder().addTextContent(String.valueOf(sum)).structuredContent(Map.of("sum", sum)).build();
        });
    }

    private static CallToolResult log(McpSyncServerExchange exchange, CallToolRequest request) {
        exchange.loggingNotification(McpSchema.LoggingMessageNotification.builder(McpSchema.LoggingLevel.WARNING, "careful")
                .logger("peer").build());
        return text("logged");
    }

    private static CallToolResult work(McpSyncServerExchange exchange, CallToolRequest request) {
        Object token = request.progressToken();
        exchange.progressNotification(new McpSchema.ProgressNotification(token, 1.0, 2.0, "half", null));
        exchange.progressNotification(new McpSchema.ProgressNotification(token, 2.0, 2.0, "done", null));
        return text("worked");
    }

    private static CallToolResult sample(McpSyncServerExchange exchange, CallToolRequest request) {
        String message = (String) request.arguments().get("message");
        var asked = McpSchema.SamplingMessage.builder(McpSchema.Role.USER, McpSchema.TextContent.builder(message).build());
        var result = exchange.createMessage(McpSchema.CreateMessageRequest.builder(List.of(asked.build()), 9).build());
        return text(((McpSchema.TextContent) result.content()).text());
    }

    private static CallToolResult ask(McpSyncServerExchange exchange, CallToolRequest request) {
        if (exchange.getClientCapabilities().elicitation() == null) {
            return CallToolResult.builder().addTextContent("the client has no elicitation").isError(true).build();
        }
        Map<String, Object> form = Map.of("type", "object", "required", List.of("name"),
                "properties", Map.of("name", Map.of("type", "string"), "guests", NUMBER));
        String message = (String) request.arguments().get("message");
        var result = exchange.createElicitation(McpSchema.ElicitFormRequest.builder(message, form).build());
        boolean accepts = result.action() == McpSchema.ElicitResult.Action.ACCEPT;
        return text(accepts ? "accept " + result.content().get("name") : result.action().name().toLowerCase());
    }

    private static McpSchema.ReadResourceResult contents(McpSchema.ReadResourceRequest request) {
        String words = "about " + request.uri().substring(request.uri().lastIndexOf('/') + 1);
        return new McpSchema.ReadResourceResult(
                List.of(new McpSchema.TextResourceContents(request.uri(), "text/plain", words)));
    }

    private static McpSchema.GetPromptResult question(McpSchema.GetPromptRequest request) {
        var content = McpSchema.TextContent.builder("What is " + request.arguments().get("thing") + "?").build();
        return McpSchema.GetPromptResult.builder(
                List.of(McpSchema.PromptMessage.builder(McpSchema.Role.USER, content).build())).build();
    }
}
