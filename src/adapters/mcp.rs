//! A server of the Model Context Protocol on standard input and output, with tools and resources of
//! plain functions. It does not interpret them. The only user of `rmcp`.

use std::{io, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, Tool,
        ToolAnnotations,
    },
    service::{RequestContext, ServerInitializeError},
    transport::stdio,
};
use serde_json::{Map, Value};
use tokio::{runtime, task::spawn_blocking};

/// The number of threads that read, write and answer.
const THREADS: usize = 8;
/// The media type of all resources.
const MEDIA_TYPE: &str = "application/json";

/// A tool. Its hints let a client ask a person before a call.
#[derive(Clone, Debug)]
pub struct McpTool {
    /// The name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Map<String, Value>,
    /// Whether it only reads.
    pub is_read_only: bool,
    /// Whether it may replace or end something.
    pub is_destructive: bool,
    /// Whether it reaches beyond this machine.
    pub is_open: bool,
}

/// A resource: JSON to read.
#[derive(Clone, Debug)]
pub struct McpResource {
    /// The address; with a part in braces, for many resources.
    pub uri: String,
    /// Its content.
    pub description: String,
}

/// The answer of a tool, or the text of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpAnswer {
    /// The texts: first the result, then remarks.
    pub texts: Vec<String>,
    /// Whether it failed.
    pub is_error: bool,
}

/// A function that calls a tool by its name.
type CallTool = Box<dyn Fn(&str, &Map<String, Value>) -> McpAnswer + Send + Sync>;
/// A function that reads a resource; none if there is none at this address.
type ReadResource = Box<dyn Fn(&str) -> Option<McpAnswer> + Send + Sync>;

/// A server with its tools and resources.
pub struct McpServer {
    /// The server's instructions for the agent.
    pub instructions: String,
    /// The tools.
    pub tools: Vec<McpTool>,
    /// The resources.
    pub resources: Vec<McpResource>,
    /// Calls a tool.
    pub call: CallTool,
    /// Reads a resource.
    pub read: ReadResource,
}

/// The server in the form of the SDK.
struct McpHandler(Arc<McpServer>);

impl McpServer {
    /// Answers the client until it closes standard input.
    ///
    /// # Errors
    /// The client does not begin as the protocol demands; the event loop cannot be started.
    pub fn serve(self) -> io::Result<()> {
        let handler = McpHandler(Arc::new(self));
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(THREADS)
            .build()?;
        let ended = runtime.block_on(async {
            match handler.serve(stdio()).await {
                Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
                Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
                Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                    Err(io::Error::other("the client does not begin with `initialize`"))
                }
                Err(error) => Err(io::Error::other(error)),
            }
        });
        // A thread may still wait for a command or for standard input; it ends with the process.
        runtime.shutdown_background();
        ended
    }
}

impl McpHandler {
    /// Resources with or without a part in braces.
    fn resources(&self, are_many: bool) -> impl Iterator<Item = &McpResource> {
        self.0.resources.iter().filter(move |it| it.uri.contains('{') == are_many)
    }
}

/// The name of a resource.
fn name_of(uri: &str) -> &str {
    let path = uri.split_once("://").map_or(uri, |(_, path)| path);
    path.split('/').next().unwrap_or(path)
}

fn lost(error: &impl ToString) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let offers = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(offers)
            .with_server_info(Implementation::new("ralph", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.0.instructions.clone())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |tool: &McpTool| {
            let McpTool { name, description, schema, is_read_only, is_destructive, is_open } =
                tool.clone();
            let hints = ToolAnnotations::new()
                .read_only(is_read_only)
                .destructive(is_destructive)
                .open_world(is_open);
            Tool::new(name, description, schema).with_annotations(hints)
        };
        Ok(ListToolsResult::with_all_items(self.0.tools.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let server = Arc::clone(&self.0);
        let call = move || (server.call)(&request.name, &request.arguments.unwrap_or_default());
        let McpAnswer { texts, is_error } =
            spawn_blocking(call).await.map_err(|error| lost(&error))?;
        let texts = texts.into_iter().map(ContentBlock::text).collect();
        let result =
            if is_error { CallToolResult::error(texts) } else { CallToolResult::success(texts) };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = |it: &McpResource| {
            Resource::new(&it.uri, name_of(&it.uri))
                .with_description(&it.description)
                .with_mime_type(MEDIA_TYPE)
        };
        Ok(ListResourcesResult::with_all_items(self.resources(false).map(resource).collect()))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = |it: &McpResource| {
            ResourceTemplate::new(&it.uri, name_of(&it.uri))
                .with_description(&it.description)
                .with_mime_type(MEDIA_TYPE)
        };
        let templates = self.resources(true).map(template).collect();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (server, uri) = (Arc::clone(&self.0), request.uri.clone());
        let answer =
            spawn_blocking(move || (server.read)(&uri)).await.map_err(|error| lost(&error))?;
        match answer {
            None => {
                let why = format!("no resource `{}`", request.uri.escape_debug());
                Err(ErrorData::resource_not_found(why, None))
            }
            Some(McpAnswer { texts, is_error: true }) => Err(lost(&texts.join("\n"))),
            Some(McpAnswer { mut texts, is_error: false }) => {
                let text = if texts.is_empty() { String::new() } else { texts.swap_remove(0) };
                let contents = ResourceContents::text(text, request.uri).with_mime_type(MEDIA_TYPE);
                Ok(ReadResourceResult::new(vec![contents]).into())
            }
        }
    }
}
