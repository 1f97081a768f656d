//! Uses servers: reads runs as JSON, and prints what the client receives for the steps of each.

use std::error::Error;
use std::io::read_to_string;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleClient, RunningService, ServiceError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData};
use serde_json::{Value, from_value, json, to_value};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(10); // For notifications.
const NEWEST: &str = "2026-07-28";

/// What a client has received since the last step.
#[derive(Default)]
struct Notes {
    logs: Vec<Value>,
    progress: Vec<Value>,
    changes: Vec<Value>,
}

#[derive(Clone)]
struct Handler {
    config: ClientConfig,
    notes: Arc<Mutex<Notes>>,
}

type Client = RunningService<RoleClient, Handler>;

impl Handler {
    fn changed(&self, kind: &str) {
        self.notes.lock().unwrap().changes.push(json!(kind));
    }

    fn has(&self, step: &Value) -> bool {
        let notes = self.notes.lock().unwrap();
        let expected = |name: &str| step[name].as_u64().unwrap_or(0) as usize;
        let kinds = step["changes"].as_array().cloned().unwrap_or_default();
        kinds.iter().all(|kind| notes.changes.contains(kind))
            && notes.logs.len() >= expected("logs")
            && notes.progress.len() >= expected("progress")
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let last = to_value(params.messages.last()).unwrap_or_default();
        let content = if last["content"].is_array() {
            &last["content"][0]
        } else {
            &last["content"]
        };
        let text = match params.system_prompt {
            Some(prompt) if prompt.contains("\"good\"") => "{\"good\": true}".to_string(),
            _ => content["text"].as_str().unwrap_or("").to_uppercase(),
        };
        Ok(CreateMessageResult::new(
            SamplingMessage::assistant_text(text),
            "parrot".into(),
        ))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///work").with_name("work")]))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(match request {
            ElicitRequestParams::FormElicitationParams { message, .. } if message.contains("decline") => {
                ElicitResult::new(ElicitationAction::Decline)
            }
            ElicitRequestParams::FormElicitationParams { .. } => {
                ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada", "guests": 3}))
            }
            _ => ElicitResult::new(ElicitationAction::Accept),
        })
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let note = json!([params.level, params.data, params.logger]);
        self.notes.lock().unwrap().logs.push(note);
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let note = json!([params.progress, params.total, params.message]);
        self.notes.lock().unwrap().progress.push(note);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("tools");
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("prompts");
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("resources");
    }
}

pub async fn use_servers() -> Result<(), Box<dyn Error>> {
    let runs: Vec<Value> = serde_json::from_str(&read_to_string(std::io::stdin())?)?;
    let mut all = Vec::new();
    for run in runs {
        all.push(match outcomes(&run).await {
            Ok(outcomes) => Value::Array(outcomes),
            Err(error) => json!({"failed": error.to_string()}),
        });
    }
    println!("{}", Value::Array(all));
    Ok(())
}

async fn connected(handler: Handler, revision: &str, server: Vec<String>) -> Result<Client, Box<dyn Error>> {
    let lifecycle = match revision {
        NEWEST => ClientLifecycleMode::Discover {
            preferred_versions: vec![from_value(json!(revision))?],
        },
        _ => ClientLifecycleMode::Initialize,
    };
    if let [url] = &server[..] {
        let transport = StreamableHttpClientTransport::from_uri(url.as_str());
        return Ok(handler.serve_with_lifecycle(transport, lifecycle).await?);
    }
    let mut command = Command::new(&server[0]);
    command.args(&server[1..]);
    Ok(handler
        .serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle)
        .await?)
}

async fn outcomes(run: &Value) -> Result<Vec<Value>, Box<dyn Error>> {
    let revision = run["revision"].as_str().ok_or("a run has a revision")?;
    let capabilities = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    let config = ClientConfig::new(from_value(capabilities)?, Implementation::new("driver", "1"))
        .with_protocol_version(from_value(json!(revision))?);
    let handler = Handler {
        config,
        notes: Default::default(),
    };
    let client = connected(handler.clone(), revision, from_value(run["server"].clone())?).await?;
    let agreed = client
        .peer_info()
        .map(|info| info.protocol_version.to_string())
        .unwrap_or_default();
    if agreed != revision {
        return Err(format!("the server speaks {agreed}, not {revision}").into());
    }
    if revision == NEWEST {
        subscribe(&client, handler.clone()).await?;
    }
    let mut outcomes = Vec::new();
    for step in run["steps"].as_array().ok_or("a run has steps")? {
        *handler.notes.lock().unwrap() = Notes::default();
        outcomes.push(match timeout(Duration::from_secs(30), done(&client, step)).await? {
            Ok(result) => {
                let end = Instant::now() + PATIENCE;
                while !handler.has(step) && Instant::now() < end {
                    sleep(Duration::from_millis(1)).await;
                }
                let notes = handler.notes.lock().unwrap();
                json!({"result": result, "logs": notes.logs, "progress": notes.progress, "changes": notes.changes})
            }
            Err(error) => json!({"error": shown(error)}),
        });
    }
    client.cancel().await?;
    Ok(outcomes)
}

fn shown(error: ServiceError) -> Value {
    match error {
        ServiceError::McpError(error) => json!({"code": error.code, "message": error.message}),
        other => json!({"message": other.to_string()}),
    }
}

/// Notes the lists that change, which the newest version sends to subscriptions only.
async fn subscribe(client: &Client, handler: Handler) -> Result<(), ServiceError> {
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed();
    let mut subscription = client.listen(filter.build()).await?;
    tokio::spawn(async move {
        while let Ok(Some(notification)) = subscription.next().await {
            match notification {
                ServerNotification::ToolListChangedNotification(_) => handler.changed("tools"),
                ServerNotification::PromptListChangedNotification(_) => handler.changed("prompts"),
                ServerNotification::ResourceListChangedNotification(_) => handler.changed("resources"),
                _ => (),
            }
        }
    });
    Ok(())
}

async fn done(client: &Client, step: &Value) -> Result<Value, ServiceError> {
    let name = step["name"].as_str().unwrap_or("").to_string();
    let arguments = step["arguments"].as_object().cloned().unwrap_or_default();
    let value = match step["op"].as_str().unwrap_or("") {
        "call" => {
            let mut params = CallToolRequestParams::new(name).with_arguments(arguments);
            params.meta = from_value(step["meta"].clone()).ok();
            to_value(client.call_tool(params).await?)
        }
        "read" => {
            let uri = step["uri"].as_str().unwrap_or("");
            to_value(client.read_resource(ReadResourceRequestParams::new(uri)).await?)
        }
        "prompt" => to_value(
            client
                .get_prompt(GetPromptRequestParams::new(name).with_arguments(arguments))
                .await?,
        ),
        "complete" => {
            let prompt = step["prompt"].as_str().unwrap_or("");
            let argument = from_value(json!({"name": name, "value": step["value"]})).unwrap();
            let params = CompleteRequestParams::new(Reference::for_prompt(prompt), argument);
            to_value(client.complete(params).await?.completion)
        }
        "server" => to_value(client.peer_info().and_then(|info| info.server_info.clone())),
        "tools" => to_value(client.list_all_tools().await?),
        "resources" => to_value(client.list_all_resources().await?),
        "templates" => to_value(client.list_all_resource_templates().await?),
        "prompts" => to_value(client.list_all_prompts().await?),
        _ => Ok(json!({})),
    };
    Ok(value.unwrap_or_default())
}
