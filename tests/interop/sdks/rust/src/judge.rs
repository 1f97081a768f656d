//! Answers each test vector on a line with what the SDK writes of it, with its error, or with null for an unknown type.

use std::error::Error;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use rmcp::model::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_str, from_value, json, to_value};

pub fn judge() -> Result<(), Box<dyn Error>> {
    let mut answers = BufWriter::new(stdout());
    for line in stdin().lock().lines() {
        let line: Value = from_str(&line?)?;
        let answer = match read(line) {
            Some(Ok(written)) => json!({ "written": written }),
            Some(Err(error)) => json!({ "error": error.to_string() }),
            None => Value::Null,
        };
        writeln!(answers, "{answer}")?;
    }
    Ok(answers.flush()?)
}

type Read = serde_json::Result<Value>;

fn result<T: DeserializeOwned + Serialize>(instance: Value, _enveloped: bool) -> Read {
    to_value(from_value::<T>(instance)?)
}

fn request<T: DeserializeOwned + Serialize>(instance: Value, enveloped: bool) -> Read {
    match enveloped {
        true => to_value(from_value::<JsonRpcRequest<T>>(instance)?),
        false => to_value(from_value::<T>(instance)?),
    }
}

fn notification<T: DeserializeOwned + Serialize>(instance: Value, enveloped: bool) -> Read {
    match enveloped {
        true => to_value(from_value::<JsonRpcNotification<T>>(instance)?),
        false => to_value(from_value::<T>(instance)?),
    }
}

/// Read an instance as the SDK's type of the same name. Its tasks are those of another revision than the schema's.
fn read(mut line: Value) -> Option<Read> {
    let read = match line["type"].as_str()? {
        "CallToolRequest" => request::<CallToolRequest>,
        "CompleteRequest" => request::<CompleteRequest>,
        "CreateMessageRequest" => request::<CreateMessageRequest>,
        "DiscoverRequest" => request::<DiscoverRequest>,
        "ElicitRequest" => request::<ElicitRequest>,
        "GetPromptRequest" => request::<GetPromptRequest>,
        "InitializeRequest" => request::<InitializeRequest>,
        "ListPromptsRequest" => request::<ListPromptsRequest>,
        "ListResourceTemplatesRequest" => request::<ListResourceTemplatesRequest>,
        "ListResourcesRequest" => request::<ListResourcesRequest>,
        "ListRootsRequest" => request::<ListRootsRequest>,
        "ListToolsRequest" => request::<ListToolsRequest>,
        "PingRequest" => request::<PingRequest>,
        "ReadResourceRequest" => request::<ReadResourceRequest>,
        "SetLevelRequest" => request::<SetLevelRequest>,
        "SubscribeRequest" => request::<SubscribeRequest>,
        "SubscriptionsListenRequest" => request::<SubscriptionsListenRequest>,
        "UnsubscribeRequest" => request::<UnsubscribeRequest>,
        "CancelledNotification" => notification::<CancelledNotification>,
        "InitializedNotification" => notification::<InitializedNotification>,
        "LoggingMessageNotification" => notification::<LoggingMessageNotification>,
        "ProgressNotification" => notification::<ProgressNotification>,
        "PromptListChangedNotification" => notification::<PromptListChangedNotification>,
        "ResourceListChangedNotification" => notification::<ResourceListChangedNotification>,
        "ResourceUpdatedNotification" => notification::<ResourceUpdatedNotification>,
        "RootsListChangedNotification" => notification::<RootsListChangedNotification>,
        "SubscriptionsAcknowledgedNotification" => notification::<SubscriptionsAcknowledgedNotification>,
        "ToolListChangedNotification" => notification::<ToolListChangedNotification>,
        "CallToolResult" => result::<CallToolResult>,
        "CompleteResult" => result::<CompleteResult>,
        "CreateMessageResult" => result::<CreateMessageResult>,
        "DiscoverResult" => result::<DiscoverResult>,
        "ElicitResult" => result::<ElicitResult>,
        "EmptyResult" => result::<EmptyResult>,
        "GetPromptResult" => result::<GetPromptResult>,
        "InitializeResult" => result::<InitializeResult>,
        "ListPromptsResult" => result::<ListPromptsResult>,
        "ListResourceTemplatesResult" => result::<ListResourceTemplatesResult>,
        "ListResourcesResult" => result::<ListResourcesResult>,
        "ListRootsResult" => result::<ListRootsResult>,
        "ListToolsResult" => result::<ListToolsResult>,
        "ReadResourceResult" => result::<ReadResourceResult>,
        "SubscriptionsListenResult" => result::<SubscriptionsListenResult>,
        _ => return None,
    };
    let enveloped = line["enveloped"] == true;
    Some(read(line["instance"].take(), enveloped))
}
