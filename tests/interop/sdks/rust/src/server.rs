//! A server with a feature of each kind.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, ServiceError, SubscriptionContext};
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Value, from_value, json, to_value};
use tokio::sync::Notify;

#[derive(Clone, Default)]
struct Server {
    revisions: Vec<ProtocolVersion>,
    changed: Arc<Notify>,
    late: Arc<AtomicBool>,
}

pub async fn serve(transport: &str, revisions: &[String]) -> Result<(), Box<dyn Error>> {
    let server = Server {
        revisions: from_value(json!(revisions))?,
        ..Default::default()
    };
    if transport == "stdio" {
        server.serve(stdio()).await?.waiting().await?;
        return Ok(());
    }
    let config = StreamableHttpServerConfig::default();
    let service: StreamableHttpService<Server, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(server.clone()), Default::default(), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening at http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

fn text(words: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(words.into())]).into()
}

fn failed(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// The values of a constant of this program.
fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    from_value(value).expect("the constant is of the type")
}

/// Asks the client: by a result in the newest version, where this is called again, by a request in others.
async fn asked(
    request: InputRequest,
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Result<Value, CallToolResponse>, ErrorData> {
    if context.protocol_version() == Some(ProtocolVersion::V_2026_07_28) {
        return Ok(
            match params.input_responses.as_ref().and_then(|all| all.get("answer")) {
                Some(answer) => Ok(answer.clone()),
                None => {
                    let requests = InputRequests::from([("answer".to_string(), request)]);
                    Err(InputRequiredResult::new(Some(requests), None).into())
                }
            },
        );
    }
    let peer = &context.peer;
    let answer = match request {
        InputRequest::CreateMessage(request) => peer.create_message(request.params).await.map(to_value),
        InputRequest::Elicitation(request) => peer.create_elicitation(request.params).await.map(to_value),
        _ => peer.list_roots().await.map(to_value),
    };
    Ok(Ok(answer.map_err(failed)?.unwrap_or_default()))
}

impl Server {
    fn tools(&self) -> Vec<Tool> {
        let message = json!({"type": "object", "properties": {"message": {"type": "string"}}});
        let number = json!({"type": "integer"});
        let mut tools = vec![json!({
            "name": "add", "title": "Add", "description": "Add two numbers.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]},
            "outputSchema": {"type": "object", "properties": {"sum": number}},
        })];
        tools.extend(["sample", "ask"].map(|name| json!({"name": name, "inputSchema": message})));
        let mut names = vec!["fail", "log", "work", "roots", "change"];
        if self.late.load(Ordering::Relaxed) {
            names.push("late");
        }
        tools.extend(
            names
                .iter()
                .map(|name| json!({"name": name, "inputSchema": {"type": "object"}})),
        );
        parsed(json!(tools))
    }

    async fn work(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        if let Some(token) = context.meta.get_progress_token() {
            for (number, words) in [(1.0, "half"), (2.0, "done")] {
                let progress = ProgressNotificationParam::new(token.clone(), number)
                    .with_total(2.0)
                    .with_message(words);
                context.peer.notify_progress(progress).await.map_err(failed)?;
            }
        }
        Ok(text("worked"))
    }

    async fn change(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        self.late.store(true, Ordering::Relaxed);
        if context.protocol_version() == Some(ProtocolVersion::V_2026_07_28) {
            self.changed.notify_waiters();
        } else {
            context.peer.notify_tool_list_changed().await.map_err(failed)?;
        }
        Ok(text("changed"))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            json!({"tools": {"listChanged": true}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}});
        ServerConfig::new(parsed(capabilities))
            .with_server_info(Implementation::new("peer", "1.2").with_title("A peer"))
            .with_instructions("Use everything.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.revisions.is_empty() {
            true => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
            false => Cow::Owned(self.revisions.clone()),
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        loop {
            tokio::select! {
                () = self.changed.notified() => {
                    context.sink().notify_tool_list_changed().await
                        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                }
                () = context.cancelled() => return Ok(()),
            }
        }
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_tools(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = self.tools();
        let rest = tools.split_off(3);
        if params.and_then(|params| params.cursor).is_some() {
            return Ok(ListToolsResult::with_all_items(rest));
        }
        let mut first = ListToolsResult::with_all_items(tools);
        first.next_cursor = Some(parsed(json!("more")));
        Ok(first)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = json!(params.arguments);
        let message = arguments["message"].as_str().unwrap_or("");
        let answer = match params.name.as_ref() {
            "add" => {
                let (Some(a), Some(b)) = (arguments["a"].as_i64(), arguments["b"].as_i64()) else {
                    return Err(ErrorData::invalid_params("a and b are integers", None));
                };
                let mut result = CallToolResult::success(vec![ContentBlock::text((a + b).to_string())]);
                result.structured_content = Some(json!({"sum": a + b}));
                return Ok(result.into());
            }
            "fail" => return Ok(CallToolResult::error(vec![ContentBlock::text("it went wrong")]).into()),
            "log" => {
                let note = LoggingMessageNotificationParam::new(LoggingLevel::Warning, json!("careful"));
                context
                    .peer
                    .notify_logging_message(note.with_logger("peer"))
                    .await
                    .map_err(failed)?;
                return Ok(text("logged"));
            }
            "work" => return self.work(&context).await,
            "change" => return self.change(&context).await,
            "late" => return Ok(text("late")),
            "sample" => {
                let messages = vec![SamplingMessage::user_text(message)];
                let request = CreateMessageRequest::new(CreateMessageRequestParams::new(messages, 9));
                asked(InputRequest::CreateMessage(request), &params, &context).await?
            }
            "ask" => {
                let request =
                    ElicitRequest::new(parsed(json!({"mode": "form", "message": message, "requestedSchema": {
                    "type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "guests": {"type": "integer"}}}})));
                asked(InputRequest::Elicitation(request), &params, &context).await?
            }
            "roots" => asked(InputRequest::ListRoots(Default::default()), &params, &context).await?,
            name => return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None)),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(asks) => return Ok(asks),
        };
        let words = |value: &Value| value.as_str().unwrap_or("").to_string();
        Ok(text(match params.name.as_ref() {
            "sample" if answer["content"].is_array() => words(&answer["content"][0]["text"]),
            "sample" => words(&answer["content"]["text"]),
            "ask" if answer["action"] == "accept" => format!("accept {}", words(&answer["content"]["name"])),
            "ask" => words(&answer["action"]),
            _ => words(&answer["roots"][0]["uri"]),
        }))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = json!({"uri": "note://one", "name": "one", "mimeType": "text/plain"});
        Ok(ListResourcesResult::with_all_items(vec![parsed(resource)]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = json!({"uriTemplate": "note://about/{thing}", "name": "about"});
        Ok(ListResourceTemplatesResult::with_all_items(vec![parsed(template)]))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let name = params.uri.rsplit('/').next().unwrap_or("");
        if params.uri != "note://one" && !params.uri.starts_with("note://about/") {
            return Err(ErrorData::resource_not_found(
                format!("no such resource: {}", params.uri),
                None,
            ));
        }
        let contents = json!([{"uri": params.uri, "mimeType": "text/plain", "text": format!("about {name}")}]);
        Ok(ReadResourceResult::new(parsed(contents)).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = json!({"name": "question", "arguments": [{"name": "thing", "required": true}]});
        Ok(ListPromptsResult::with_all_items(vec![parsed(prompt)]))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if params.name != "question" {
            return Err(ErrorData::invalid_params(
                format!("unknown prompt: {}", params.name),
                None,
            ));
        }
        let thing = json!(params.arguments)["thing"].as_str().unwrap_or("").to_string();
        let message = PromptMessage::new_text(Role::User, format!("What is {thing}?"));
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = ["ea", "in"].map(|end| format!("{}{end}", params.argument.value));
        let completion =
            CompletionInfo::new(values.to_vec()).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }
}
