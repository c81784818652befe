//! A whole fleet, as its Nodes tell it to whoever asks the API server.
//!
//! ```text
//!   access (kubeconfig, kubectl's flags) --> Fleet: nodes in pages, a watch, events
//!                                              |
//!                                              v
//!                                            view (pure): a Node in one row
//! ```

use pleg::model::wall_time::WallClock;
use serde::Deserialize;

use crate::api::{self, Asks, Door, Failure, Watched};
use crate::config::is_domain;
use crate::node::Node;

mod access;
mod events;
mod view;

pub use access::Access;
pub use events::FleetEvent;
pub use view::{FleetState, NodeView};

/// A page of nodes is larger than any single one: 500 Nodes of 64 kB.
const LONGEST_PAGE: usize = 32 << 20;

/// How often a list is begun anew because the server has forgotten where it was.
const MOST_RESTARTS: usize = 3;

/// For how many seconds a watch goes on at the server.
const WATCH_SECONDS: u32 = 300;

/// The Nodes of a cluster.
pub struct Fleet {
    door: Door,
    clock: WallClock,
}

/// Nodes, and the version of the cluster that they are of.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The Nodes, as the server orders them.
    pub nodes: Vec<NodeView>,
    /// What a watch goes on from.
    pub version: String,
}

/// What happens to a Node.
#[derive(Clone, Debug)]
pub enum Change {
    /// It is there, and so.
    There(Box<NodeView>),
    /// It is gone.
    Gone(String),
}

/// A watch of the Nodes.
pub struct Watch {
    watch: api::Watch<Node>,
    version: String,
    clock: WallClock,
}

impl Watch {
    /// What happens next; `None` once the server has ended the watch, as it does every five
    /// minutes. [`Failure::Expired`] says that Nodes have to be listed anew.
    pub async fn next(&mut self) -> Result<Option<Change>, Failure> {
        while let Some(watched) = self.watch.next().await? {
            let (Watched::There(node) | Watched::Gone(node) | Watched::Bookmark(node)) = &watched;
            self.version.clone_from(&node.metadata.resource_version);
            match watched {
                Watched::There(node) => {
                    let view = NodeView::of(&node, (self.clock)());
                    return Ok(Some(Change::There(Box::new(view))));
                }
                Watched::Gone(node) => return Ok(Some(Change::Gone(node.metadata.name))),
                Watched::Bookmark(_) => {}
            }
        }
        Ok(None)
    }

    /// The version up to which it has told everything.
    pub fn version(&self) -> &str {
        &self.version
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
        let door = Door::new(access.config().await?)?;
        Ok(Self { door, clock })
    }

    /// All Nodes that a selector selects, in pages of so many; `progress` hears how many have come
    /// and how many are to come, as far as the server says.
    pub async fn nodes(
        &self,
        selector: Option<&str>,
        chunk: usize,
        mut progress: impl FnMut(usize, Option<usize>),
    ) -> Result<Listed, Failure> {
        let mut restarts = 0;
        loop {
            match self.list(selector, chunk, &mut progress).await {
                Err(Failure::Expired) if restarts < MOST_RESTARTS => restarts += 1,
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
            let asks = Asks {
                right: "list nodes",
                of: "the list of nodes",
                longest: LONGEST_PAGE,
            };
            let page: Page = self.door.get(&path("/api/v1/nodes", &query), asks).await?;
            let now = (self.clock)();
            nodes.extend(page.items.iter().map(|node| NodeView::of(node, now)));
            progress(nodes.len(), page.metadata.remaining_item_count);
            token = page.metadata.token.filter(|token| !token.is_empty());
            if token.is_none() {
                let version = page.metadata.resource_version;
                return Ok(Listed { nodes, version });
            }
        }
    }

    /// One Node.
    pub async fn node(&self, name: &str) -> Result<NodeView, Failure> {
        let asks = Asks::object("get nodes", "the Node");
        if !is_domain(name) {
            return Err(Failure::NotFound("the Node"));
        }
        let path = format!("/api/v1/nodes/{name}");
        let node: Node = self.door.get(&path, asks).await?;
        Ok(NodeView::of(&node, (self.clock)()))
    }

    /// Begins to watch what happens after a version.
    pub async fn watch(&self, selector: Option<&str>, version: &str) -> Result<Watch, Failure> {
        let timeout = WATCH_SECONDS.to_string();
        let query = [
            ("watch", Some("true")),
            ("allowWatchBookmarks", Some("true")),
            ("timeoutSeconds", Some(timeout.as_str())),
            ("resourceVersion", Some(version)),
            ("labelSelector", selector),
        ];
        let asks = Asks::object("watch nodes", "the list of nodes");
        let path = path("/api/v1/nodes", &query);
        let watch = self.door.watch(&path, asks);
        Ok(Watch {
            watch: watch.await?,
            version: version.to_owned(),
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
