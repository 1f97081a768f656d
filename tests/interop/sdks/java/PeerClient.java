import io.modelcontextprotocol.client.McpClient;
import io.modelcontextprotocol.client.McpSyncClient;
import io.modelcontextprotocol.client.transport.HttpClientSseClientTransport;
import io.modelcontextprotocol.client.transport.HttpClientStreamableHttpTransport;
import io.modelcontextprotocol.client.transport.ServerParameters;
import io.modelcontextprotocol.client.transport.StdioClientTransport;
import io.modelcontextprotocol.json.TypeRef;
import io.modelcontextprotocol.spec.McpClientTransport;
import io.modelcontextprotocol.spec.McpError;
import io.modelcontextprotocol.spec.McpSchema;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;

/** Uses servers: reads runs as JSON, and prints what the client receives for the steps of each. */
final class PeerClient {
    private static final long PATIENCE = 10_000; // Milliseconds for notifications.
    private final List<Object> logs = new CopyOnWriteArrayList<>();
    private final List<Object> progress = new CopyOnWriteArrayList<>();
    private final List<Object> changes = new CopyOnWriteArrayList<>();

    record Run(String revision, List<String> server, List<Step> steps) {}

    record Step(String op, String name, String uri, String prompt, String value, Map<String, Object> arguments,
            Map<String, Object> meta, Integer logs, Integer progress, List<String> changes) {}

    static void useServers() throws IOException {
        List<Run> runs = Peer.JSON.readValue(System.in.readAllBytes(), new TypeRef<List<Run>>() {});
        List<Object> all = new ArrayList<>();
        for (Run run : runs) {
            try {
                all.add(new PeerClient().outcomes(run));
            } catch (Exception error) {
                all.add(Map.of("failed", error.toString()));
            }
        }
        System.out.println(Peer.JSON.writeValueAsString(all));
    }

    private static McpClientTransport transport(Run run) {
        String first = run.server().get(0);
        List<String> revisions = List.of(run.revision());
        if (run.server().size() > 1) {
            List<String> rest = run.server().subList(1, run.server().size());
            return new StdioClientTransport(ServerParameters.builder(first).args(rest).build(), Peer.JSON) {
                @Override
                public List<String> protocolVersions() {
                    return revisions; // By default they are all that the SDK has.
                }
            };
        }
        URI url = URI.create(first);
        String origin = "http://" + url.getAuthority();
        if (url.getPath().endsWith("/sse")) {
            return HttpClientSseClientTransport.builder(origin).sseEndpoint(url.getPath()).build();
        }
        return HttpClientStreamableHttpTransport.builder(origin).endpoint(url.getPath())
                .openConnectionOnStartup(true).supportedProtocolVersions(revisions).build();
    }

    private McpSyncClient client(Run run) {
        return McpClient.sync(transport(run))
                .clientInfo(McpSchema.Implementation.builder("driver", "1").build())
                .capabilities(McpSchema.ClientCapabilities.builder().roots(false).sampling().elicitation(true, true).build())
                .roots(McpSchema.Root.builder("file:///work").name("work").build())
                .requestTimeout(Duration.ofSeconds(30))
                .sampling(PeerClient::sample)
                .elicitation(request -> request.message().contains("decline")
                        ? McpSchema.ElicitResult.builder(McpSchema.ElicitResult.Action.DECLINE).build()
                        : McpSchema.ElicitResult.builder(McpSchema.ElicitResult.Action.ACCEPT)
                                .content(Map.of("name", "Ada", "guests", 3)).build())
                .urlElicitation(request -> McpSchema.ElicitResult.builder(McpSchema.ElicitResult.Action.ACCEPT).build())
                .loggingConsumer(note -> logs.add(row(note.level(), note.data(), note.logger())))
                .progressConsumer(note -> progress.add(row(note.progress(), note.total(), note.message())))
                .toolsChangeConsumer(tools -> changes.add("tools"))
                .promptsChangeConsumer(prompts -> changes.add("prompts"))
                .resourcesChangeConsumer(resources -> changes.add("resources"))
                .build();
    }

    private static List<Object> row(Object... values) {
        return new ArrayList<>(java.util.Arrays.asList(values));
    }

    private static McpSchema.CreateMessageResult sample(McpSchema.CreateMessageRequest request) {
        McpSchema.SamplingMessage last = request.messages().get(request.messages().size() - 1);
        String text = ((McpSchema.TextContent) last.content()).text().toUpperCase();
        if (Objects.requireNonNullElse(request.systemPrompt(), "").contains("\"good\"")) {
            text = "{\"good\": true}";
        }
        return McpSchema.CreateMessageResult.builder(McpSchema.Role.ASSISTANT, text, "parrot").build();
    }

    private List<Object> outcomes(Run run) throws Exception {
        List<Object> outcomes = new ArrayList<>();
        try (McpSyncClient client = client(run)) {
            String agreed = client.initialize().protocolVersion();
            if (!agreed.equals(run.revision())) {
                throw new IllegalStateException("the server speaks " + agreed + ", not " + run.revision());
            }
            for (Step step : run.steps()) {
                List.of(logs, progress, changes).forEach(List::clear);
                outcomes.add(outcome(client, step));
            }
        }
        return outcomes;
    }

    private Map<String, Object> outcome(McpSyncClient client, Step step) throws InterruptedException {
        Object result;
        try {
            result = done(client, step);
        } catch (McpError error) {
            Integer code = error.getJsonRpcError() == null ? null : error.getJsonRpcError().code();
            return Map.of("error", code == null ? Map.of("message", String.valueOf(error.getMessage()))
                    : Map.of("code", code, "message", String.valueOf(error.getMessage())));
        } catch (RuntimeException error) {
            return Map.of("error", Map.of("message", error.toString()));
        }
        long end = System.currentTimeMillis() + PATIENCE;
        while (!hasAll(step) && System.currentTimeMillis() < end) {
            Thread.sleep(1);
        }
        Map<String, Object> outcome = new HashMap<>();
        outcome.put("result", result);
        outcome.put("logs", List.copyOf(logs));
        outcome.put("progress", List.copyOf(progress));
        outcome.put("changes", List.copyOf(changes));
        return outcome;
    }

    private boolean hasAll(Step step) {
        List<String> kinds = step.changes() == null ? List.of() : step.changes();
        return changes.containsAll(kinds) && logs.size() >= count(step.logs()) && progress.size() >= count(step.progress());
    }

    private static int count(Integer number) {
        return number == null ? 0 : number;
    }

    private static Object done(McpSyncClient client, Step step) {
        switch (step.op()) {
            case "call":
                Map<String, Object> meta = new HashMap<>(step.meta() == null ? Map.of() : step.meta());
                if (count(step.progress()) > 0) {
                    meta.put("progressToken", "progress");
                }
                return client.callTool(McpSchema.CallToolRequest.builder(step.name()).arguments(step.arguments())
                        .meta(meta.isEmpty() ? null : meta).build());
            case "read":
                return client.readResource(McpSchema.ReadResourceRequest.builder(step.uri()).build());
            case "prompt":
                return client.getPrompt(McpSchema.GetPromptRequest.builder(step.name()).arguments(step.arguments()).build());
            case "complete":
                McpSchema.CompleteRequest.CompleteArgument argument =
                        new McpSchema.CompleteRequest.CompleteArgument(step.name(), step.value());
                McpSchema.PromptReference prompt = McpSchema.PromptReference.builder(step.prompt()).build();
                return client.completeCompletion(McpSchema.CompleteRequest.builder(prompt, argument).build()).completion();
            case "server":
                return client.getServerInfo();
            case "tools":
                return client.listTools().tools();
            case "resources":
                return client.listResources().resources();
            case "templates":
                return client.listResourceTemplates().resourceTemplates();
            case "prompts":
                return client.listPrompts().prompts();
            default:
                throw new IllegalArgumentException("no such step: " + step.op());
        }
    }
}
