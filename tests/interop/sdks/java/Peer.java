import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.json.McpJsonMapper;
import java.util.Arrays;
import java.util.List;

/**
 * A peer of the official Java SDK: `Peer client` uses servers, `Peer server stdio|http REVISION…` is one, and `Peer judge`
 * says which test vectors the SDK's types accept.
 */
final class Peer {
    static final McpJsonMapper JSON = McpJsonDefaults.getMapper();
    static final List<String> REVISIONS = List.of("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25");

    public static void main(String[] words) throws Exception {
        if (words.length == 1 && words[0].equals("client")) {
            PeerClient.useServers();
        } else if (words.length == 1 && words[0].equals("judge")) {
            PeerJudge.judge();
        } else if (words.length > 1 && words[0].equals("server")) {
            PeerServer.serve(words[1], Arrays.asList(words).subList(2, words.length));
        } else {
            System.err.println("usage: Peer client | Peer judge | Peer server stdio|http [REVISION…]");
            System.exit(2);
        }
        System.exit(0); // Threads of the SDK would go on.
    }
}
