package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const patience = 10 * time.Second // For notifications.

type step struct {
	Op, Name, URI, Prompt, Value string
	Arguments                    map[string]any
	Meta                         map[string]any
	Logs, Progress               int
	Changes                      []string
}

type run struct {
	Revision string
	Server   []string
	Steps    []step
}

// What a client has received since the last step.
type notes struct {
	sync.Mutex
	logs, progress [][]any
	changes        []string
}

func (n *notes) add(list *[][]any, values ...any) {
	n.Lock()
	defer n.Unlock()
	*list = append(*list, values)
}

func (n *notes) changed(kind string) {
	n.Lock()
	defer n.Unlock()
	n.changes = append(n.changes, kind)
}

func (n *notes) clear() {
	n.Lock()
	defer n.Unlock()
	n.logs, n.progress, n.changes = [][]any{}, [][]any{}, []string{}
}

func (n *notes) has(s step) bool {
	n.Lock()
	defer n.Unlock()
	for _, kind := range s.Changes {
		if !slices.Contains(n.changes, kind) {
			return false
		}
	}
	return len(n.logs) >= s.Logs && len(n.progress) >= s.Progress
}

// useServers reads runs as JSON, and prints what the client receives for the steps of each.
func useServers() {
	var runs []run
	if err := json.NewDecoder(os.Stdin).Decode(&runs); err != nil {
		log.Fatal(err)
	}
	all := []any{}
	for _, r := range runs {
		outcomes, err := r.outcomes()
		if err != nil {
			all = append(all, map[string]any{"failed": err.Error()})
		} else {
			all = append(all, outcomes)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		log.Fatal(err)
	}
}

func (r run) transport() mcp.Transport {
	if len(r.Server) > 1 {
		command := exec.Command(r.Server[0], r.Server[1:]...)
		command.Stderr = os.Stderr
		return &mcp.CommandTransport{Command: command}
	}
	if strings.HasSuffix(r.Server[0], "/sse") {
		return &mcp.SSEClientTransport{Endpoint: r.Server[0]}
	}
	return &mcp.StreamableClientTransport{Endpoint: r.Server[0]}
}

func (r run) outcomes() ([]any, error) {
	seen := &notes{}
	client := mcp.NewClient(&mcp.Implementation{Name: "driver", Version: "1"}, options(seen))
	client.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := client.Connect(ctx, r.transport(), &mcp.ClientSessionOptions{ProtocolVersion: r.Revision})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if agreed := session.InitializeResult().ProtocolVersion; agreed != r.Revision {
		return nil, fmt.Errorf("the server speaks %s, not %s", agreed, r.Revision)
	}
	outcomes := []any{}
	for _, s := range r.Steps {
		seen.clear()
		result, err := s.do(ctx, session)
		if err != nil {
			outcomes = append(outcomes, map[string]any{"error": shown(err)})
			continue
		}
		for end := time.Now().Add(patience); !seen.has(s) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		seen.Lock()
		noted := map[string]any{"result": result, "logs": seen.logs, "progress": seen.progress, "changes": seen.changes}
		seen.Unlock()
		outcomes = append(outcomes, noted)
	}
	return outcomes, nil
}

func shown(err error) map[string]any {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return map[string]any{"code": wire.Code, "message": err.Error()}
	}
	return map[string]any{"message": err.Error()}
}

// options answers what servers request, and notes what they notify.
func options(seen *notes) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		CreateMessageHandler: func(_ context.Context, req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			last := req.Params.Messages[len(req.Params.Messages)-1].Content.(*mcp.TextContent)
			text := strings.ToUpper(last.Text)
			if strings.Contains(req.Params.SystemPrompt, `"good"`) {
				text = `{"good": true}`
			}
			return &mcp.CreateMessageResult{Role: "assistant", Model: "parrot", Content: &mcp.TextContent{Text: text}}, nil
		},
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if strings.Contains(req.Params.Message, "decline") {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			if req.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada", "guests": 3}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) {
			seen.add(&seen.logs, req.Params.Level, req.Params.Data, orNil(req.Params.Logger))
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			seen.add(&seen.progress, req.Params.Progress, req.Params.Total, orNil(req.Params.Message))
		},
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { seen.changed("tools") },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { seen.changed("prompts") },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { seen.changed("resources") },
	}
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func (s step) do(ctx context.Context, session *mcp.ClientSession) (any, error) {
	switch s.Op {
	case "call":
		params := &mcp.CallToolParams{Name: s.Name, Arguments: s.Arguments, Meta: s.Meta}
		if s.Progress > 0 {
			params.SetProgressToken("progress")
		}
		return session.CallTool(ctx, params)
	case "read":
		return session.ReadResource(ctx, &mcp.ReadResourceParams{URI: s.URI})
	case "prompt":
		texts := map[string]string{}
		for name, value := range s.Arguments {
			texts[name] = fmt.Sprint(value)
		}
		return session.GetPrompt(ctx, &mcp.GetPromptParams{Name: s.Name, Arguments: texts})
	case "complete":
		result, err := session.Complete(ctx, &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: s.Prompt},
			Argument: mcp.CompleteParamsArgument{Name: s.Name, Value: s.Value},
		})
		if err != nil {
			return nil, err
		}
		return result.Completion, nil
	case "server":
		return session.InitializeResult().ServerInfo, nil
	case "tools":
		return collected(session.Tools(ctx, nil))
	case "resources":
		return collected(session.Resources(ctx, nil))
	case "templates":
		return collected(session.ResourceTemplates(ctx, nil))
	case "prompts":
		return collected(session.Prompts(ctx, nil))
	}
	return nil, fmt.Errorf("no such step: %s", s.Op)
}

func collected[T any](items func(func(T, error) bool)) (any, error) {
	all := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}
