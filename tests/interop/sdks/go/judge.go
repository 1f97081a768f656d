package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type vector struct {
	Type, Of, Part string
	Enveloped      bool
	Instance       json.RawMessage
}

// A reader has a new value of the SDK's type for the params of a message or for a result.
type reader struct {
	value       func() any
	needsParams bool // The SDK refuses the message without params.
}

func optional[T any]() reader { return reader{func() any { return new(T) }, false} }
func needed[T any]() reader   { return reader{func() any { return new(T) }, true} }

// The types of the schema, by the names of the schema, that the SDK has in public. It has none for an empty result.
var readers = map[string]reader{
	"CallToolRequest":                       needed[mcp.CallToolParamsRaw](),
	"CompleteRequest":                       needed[mcp.CompleteParams](),
	"CreateMessageRequest":                  needed[mcp.CreateMessageWithToolsParams](),
	"DiscoverRequest":                       optional[mcp.DiscoverParams](),
	"ElicitRequest":                         optional[mcp.ElicitParams](),
	"GetPromptRequest":                      needed[mcp.GetPromptParams](),
	"InitializeRequest":                     needed[mcp.InitializeParams](),
	"ListPromptsRequest":                    optional[mcp.ListPromptsParams](),
	"ListResourceTemplatesRequest":          optional[mcp.ListResourceTemplatesParams](),
	"ListResourcesRequest":                  optional[mcp.ListResourcesParams](),
	"ListRootsRequest":                      optional[mcp.ListRootsParams](),
	"ListToolsRequest":                      optional[mcp.ListToolsParams](),
	"PingRequest":                           optional[mcp.PingParams](),
	"ReadResourceRequest":                   needed[mcp.ReadResourceParams](),
	"SetLevelRequest":                       needed[mcp.SetLoggingLevelParams](),
	"SubscribeRequest":                      needed[mcp.SubscribeParams](),
	"SubscriptionsListenRequest":            needed[mcp.SubscriptionsListenParams](),
	"UnsubscribeRequest":                    needed[mcp.UnsubscribeParams](),
	"CancelledNotification":                 optional[mcp.CancelledParams](),
	"ElicitationCompleteNotification":       optional[mcp.ElicitationCompleteParams](),
	"InitializedNotification":               optional[mcp.InitializedParams](),
	"LoggingMessageNotification":            needed[mcp.LoggingMessageParams](),
	"ProgressNotification":                  needed[mcp.ProgressNotificationParams](),
	"PromptListChangedNotification":         optional[mcp.PromptListChangedParams](),
	"ResourceListChangedNotification":       optional[mcp.ResourceListChangedParams](),
	"ResourceUpdatedNotification":           optional[mcp.ResourceUpdatedNotificationParams](),
	"RootsListChangedNotification":          optional[mcp.RootsListChangedParams](),
	"SubscriptionsAcknowledgedNotification": optional[mcp.SubscriptionsAcknowledgedParams](),
	"ToolListChangedNotification":           optional[mcp.ToolListChangedParams](),
	"CallToolResult":                        optional[mcp.CallToolResult](),
	"CompleteResult":                        optional[mcp.CompleteResult](),
	"CreateMessageResult":                   optional[mcp.CreateMessageWithToolsResult](),
	"DiscoverResult":                        optional[mcp.DiscoverResult](),
	"ElicitResult":                          optional[mcp.ElicitResult](),
	"GetPromptResult":                       optional[mcp.GetPromptResult](),
	"InitializeResult":                      optional[mcp.InitializeResult](),
	"ListPromptsResult":                     optional[mcp.ListPromptsResult](),
	"ListResourceTemplatesResult":           optional[mcp.ListResourceTemplatesResult](),
	"ListResourcesResult":                   optional[mcp.ListResourcesResult](),
	"ListRootsResult":                       optional[mcp.ListRootsResult](),
	"ListToolsResult":                       optional[mcp.ListToolsResult](),
	"ReadResourceResult":                    optional[mcp.ReadResourceResult](),
	"SubscriptionsListenResult":             optional[mcp.SubscriptionsListenResult](),
}

// judge answers each vector on a line with what the SDK writes of it, with its error, or with null.
func judge() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var line vector
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			log.Fatal(err)
		}
		var answer map[string]any
		if reader, there := readers[line.Type]; there {
			written, err := line.written(reader)
			answer = map[string]any{"written": written}
			if err != nil {
				answer = map[string]any{"error": err.Error()}
			}
		}
		if err := answers.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
}

func (v vector) written(reader reader) (any, error) {
	value := reader.value()
	if v.Part == "result" {
		return value, json.Unmarshal(v.Instance, value)
	}
	params, err := v.params()
	if err != nil {
		return nil, err
	}
	if reader.needsParams && (len(params) == 0 || string(params) == "null") {
		return nil, errors.New("missing params")
	}
	var message map[string]any
	if err := json.Unmarshal(v.Instance, &message); err != nil || len(params) == 0 {
		return message, err
	}
	message["params"] = value
	return message, json.Unmarshal(params, value)
}

// params has the params of a message, after what the SDK checks of its envelope.
func (v vector) params() (json.RawMessage, error) {
	if !v.Enveloped {
		var message struct {
			Method string
			Params json.RawMessage
		}
		err := json.Unmarshal(v.Instance, &message)
		if err == nil && message.Method != v.Of {
			err = fmt.Errorf("%q is another method", message.Method)
		}
		return message.Params, err
	}
	message, err := jsonrpc.DecodeMessage(v.Instance)
	if err != nil {
		return nil, err
	}
	request, ok := message.(*jsonrpc.Request)
	if !ok || request.Method != v.Of || request.IsCall() != (v.Part == "request") {
		return nil, errors.New("another kind of message, or another method")
	}
	return request.Params, nil
}
