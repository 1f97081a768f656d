package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func serve(transport string, revisions []string) {
	server := newServer(revisions)
	if transport == "stdio" {
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "listening at http://%s/mcp\n", listener.Addr())
	get := func(*http.Request) *mcp.Server { return server }
	mux := http.NewServeMux()
	sessions := mcp.NewStreamableHTTPHandler(get, nil)
	stateless := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		// A handler of this SDK has either the versions with sessions or the one without.
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			stateless.ServeHTTP(w, r)
		} else {
			sessions.ServeHTTP(w, r)
		}
	})
	mux.Handle("/sse", mcp.NewSSEHandler(get, nil))
	log.Fatal(http.Serve(listener, mux))
}

type numbers struct {
	A int `json:"a"`
	B int `json:"b"`
}

type sum struct {
	Sum int `json:"sum"`
}

type message struct {
	Message string `json:"message"`
}

type nothing struct{}

func text(words string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: words}}}
}

// asked returns the answer to a request of the server, or a result that asks for it.
func asked(req *mcp.CallToolRequest, request mcp.InputRequest) (mcp.InputResponse, *mcp.CallToolResult) {
	if answer, ok := req.Params.InputResponses["answer"]; ok {
		return answer, nil
	}
	return nil, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"answer": request}}
}

func newServer(revisions []string) *mcp.Server {
	subscribed := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	unsubscribed := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	server := mcp.NewServer(&mcp.Implementation{Name: "peer", Title: "A peer", Version: "1.2"}, &mcp.ServerOptions{
		Instructions: "Use everything.", PageSize: 3, SupportedProtocolVersions: revisions,
		SubscribeHandler: subscribed, UnsubscribeHandler: unsubscribed,
		CompletionHandler: func(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			words := []string{req.Params.Argument.Value + "ea", req.Params.Argument.Value + "in"}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: words}}, nil
		},
	})
	addTools(server)
	addOthers(server)
	return server
}

func addTools(server *mcp.Server) {
	read := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "add", Title: "Add", Description: "Add two numbers.", Annotations: read},
		func(_ context.Context, _ *mcp.CallToolRequest, in numbers) (*mcp.CallToolResult, sum, error) {
			return text(fmt.Sprint(in.A + in.B)), sum{in.A + in.B}, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("it went wrong")
	})
	mcp.AddTool(server, &mcp.Tool{Name: "log"}, func(ctx context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
		err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: "careful", Logger: "peer"})
		return text("logged"), nil, err
	})
	mcp.AddTool(server, &mcp.Tool{Name: "work"}, func(ctx context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
		token := req.Params.GetProgressToken()
		for i, words := range []string{"half", "done"} {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(i + 1), Total: 2, Message: words})
			if err != nil {
				return nil, nil, err
			}
		}
		return text("worked"), nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "sample"}, func(_ context.Context, req *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
		answer, asks := asked(req, &mcp.CreateMessageParams{MaxTokens: 9, Messages: []*mcp.SamplingMessage{
			{Role: "user", Content: &mcp.TextContent{Text: in.Message}}}})
		if asks != nil {
			return asks, nil, nil
		}
		result := answer.(*mcp.CreateMessageWithToolsResult)
		return text(result.Content[0].(*mcp.TextContent).Text), nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(_ context.Context, req *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
		answer, asks := asked(req, &mcp.ElicitParams{Mode: "form", Message: in.Message, RequestedSchema: map[string]any{
			"type": "object", "required": []string{"name"}, "properties": map[string]any{
				"name": map[string]any{"type": "string"}, "guests": map[string]any{"type": "integer"}}}})
		if asks != nil {
			return asks, nil, nil
		}
		result := answer.(*mcp.ElicitResult)
		if result.Action != "accept" {
			return text(result.Action), nil, nil
		}
		return text(fmt.Sprint(result.Action, " ", result.Content["name"])), nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "roots"}, func(_ context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
		answer, asks := asked(req, &mcp.ListRootsParams{})
		if asks != nil {
			return asks, nil, nil
		}
		return text(answer.(*mcp.ListRootsResult).Roots[0].URI), nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "change"}, func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, any, error) {
		server.AddTool(&mcp.Tool{Name: "late", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("late"), nil })
		return text("changed"), nil, nil
	})
}

func addOthers(server *mcp.Server) {
	contents := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		words := "about " + req.Params.URI[strings.LastIndex(req.Params.URI, "/")+1:]
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: req.Params.URI, MIMEType: "text/plain", Text: words}}}, nil
	}
	server.AddResource(&mcp.Resource{URI: "note://one", Name: "one", MIMEType: "text/plain"}, contents)
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "note://about/{thing}", Name: "about"}, contents)
	server.AddPrompt(&mcp.Prompt{Name: "question", Arguments: []*mcp.PromptArgument{{Name: "thing", Required: true}}},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			words := fmt.Sprintf("What is %s?", req.Params.Arguments["thing"])
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: words}}}}, nil
		})
}
