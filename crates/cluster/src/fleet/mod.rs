//! The state of all nodes of a cluster, as the API server has it.
//!
//! ```text
//!   access (kubeconfig, kubectl's flags) --> Fleet: nodes in pages, a watch, events
//!                                              |
//!                                              v
//!                                            view (pure): a Node in one row
//! ```

use pleg::model::wall_time::WallClock;
use serde::Deserialize;

use crate::api::{self, ApiClient, Failure, RequestSpec, WatchEvent};
use crate::config::is_domain;
use crate::node::Node;

mod access;
mod events;
mod view;

pub use access::Access;
pub use events::FleetEvent;
pub use view::{FleetState, NodeView};

/// The maximum size of a page of Nodes: 1000 Nodes, the largest chunk, of 32 kB.
const MAX_PAGE_BYTES: usize = 32 << 20;

/// The maximum number of times that a list is begun again because its continuation has expired.
const MAX_RESTARTS: usize = 3;

/// The duration of a watch in seconds.
const WATCH_TIMEOUT_SECONDS: u32 = 300;

/// Reads the Nodes of a cluster from its API server.
pub struct Fleet {
    client: ApiClient,
    clock: WallClock,
}

/// The Nodes of a cluster as of one resource version.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The Nodes, in the order of the server.
    pub nodes: Vec<NodeView>,
    /// The resource version from which a watch continues.
    pub resource_version: String,
}

/// A change of a Node.
#[derive(Clone, Debug)]
pub enum Change {
    /// The Node exists, with this content.
    Exists(Box<NodeView>),
    /// The Node of this name was deleted.
    Deleted(String),
}

/// A watch of the Nodes.
pub struct Watch {
    watch: api::Watch<Node>,
    resource_version: String,
    clock: WallClock,
}

impl Watch {
    /// The next change; `None` once the server has ended the watch, as it does every five minutes.
    /// [`Failure::Expired`] means that the Nodes must be listed again.
    pub async fn next(&mut self) -> Result<Option<Change>, Failure> {
        while let Some(watched) = self.watch.next().await? {
            let (WatchEvent::Exists(node) | WatchEvent::Deleted(node) | WatchEvent::Bookmark(node)) =
                &watched;
            self.resource_version
                .clone_from(&node.metadata.resource_version);
            match watched {
                WatchEvent::Exists(node) => {
                    let view = NodeView::of(&node, (self.clock)());
                    return Ok(Some(Change::Exists(Box::new(view))));
                }
                WatchEvent::Deleted(node) => return Ok(Some(Change::Deleted(node.metadata.name))),
                WatchEvent::Bookmark(_) => {}
            }
        }
        Ok(None)
    }

    /// The resource version up to which all changes were returned.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Node>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    token: Option<String>,
    #[serde(default)]
    remaining_item_count: Option<usize>,
}

impl Fleet {
    /// Finds the server and the credentials.
    pub async fn open(access: &Access, clock: WallClock) -> Result<Self, Failure> {
        let client = ApiClient::new(access.config().await?)?;
        Ok(Self { client, clock })
    }

    /// All Nodes that match `selector`, requested in pages of `chunk` Nodes. `progress` receives how many Nodes
    /// have been received, and how many remain if the server reports that, which it does only without a selector.
    /// If the continuation expires, the list and the counts begin again.
    pub async fn nodes(
        &self,
        selector: Option<&str>,
        chunk: usize,
        mut progress: impl FnMut(usize, Option<usize>),
    ) -> Result<Listed, Failure> {
        let mut restarts = 0;
        loop {
            match self.list(selector, chunk, &mut progress).await {
                Err(Failure::Expired) if restarts < MAX_RESTARTS => restarts += 1,
                ended => return ended,
            }
        }
    }

    async fn list(
        &self,
        selector: Option<&str>,
        chunk: usize,
        progress: &mut impl FnMut(usize, Option<usize>),
    ) -> Result<Listed, Failure> {
        let mut nodes = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let limit = chunk.to_string();
            let query = [
                ("limit", Some(limit.as_str())),
                ("labelSelector", selector),
                ("continue", token.as_deref()),
            ];
            let spec = RequestSpec {
                permission: "list nodes",
                object: "the list of nodes",
                max_bytes: MAX_PAGE_BYTES,
            };
            let path = path("/api/v1/nodes", &query);
            let page: Page = self.client.get(&path, spec).await?;
            let now = (self.clock)();
            nodes.extend(page.items.iter().map(|node| NodeView::of(node, now)));
            progress(nodes.len(), page.metadata.remaining_item_count);
            token = page.metadata.token.filter(|token| !token.is_empty());
            if token.is_none() {
                let resource_version = page.metadata.resource_version;
                return Ok(Listed {
                    nodes,
                    resource_version,
                });
            }
        }
    }

    /// One Node.
    pub async fn node(&self, name: &str) -> Result<NodeView, Failure> {
        let spec = RequestSpec::object("get nodes", "the Node");
        if !is_domain(name) {
            return Err(Failure::NotFound("the Node"));
        }
        let path = format!("/api/v1/nodes/{name}");
        let node: Node = self.client.get(&path, spec).await?;
        Ok(NodeView::of(&node, (self.clock)()))
    }

    /// Watches for changes after this resource version.
    pub async fn watch(
        &self,
        selector: Option<&str>,
        resource_version: &str,
    ) -> Result<Watch, Failure> {
        let timeout = WATCH_TIMEOUT_SECONDS.to_string();
        let query = [
            ("watch", Some("true")),
            ("allowWatchBookmarks", Some("true")),
            ("timeoutSeconds", Some(timeout.as_str())),
            ("resourceVersion", Some(resource_version)),
            ("labelSelector", selector),
        ];
        let spec = RequestSpec::object("watch nodes", "the list of nodes");
        let path = path("/api/v1/nodes", &query);
        let watch = self.client.watch(&path, spec);
        Ok(Watch {
            watch: watch.await?,
            resource_version: resource_version.to_owned(),
            clock: self.clock.clone(),
        })
    }
}

/// A path with the parameters that have a value.
fn path(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let given = query
        .iter()
        .filter_map(|(key, value)| Some((*key, (*value)?)));
    let mut encoded = form_urlencoded::Serializer::new(String::new());
    let encoded = encoded.extend_pairs(given).finish();
    format!("{path}?{encoded}")
}
