//! A double of an API server that serves until it is dropped.

use std::ops::Deref;

use api_double::Double;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::Pleg;

pub struct ApiServer {
    double: Double,
    server: Option<Runtime>,
}

impl ApiServer {
    pub fn start(nodes: Vec<Value>) -> Self {
        let server = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self {
            double: server.block_on(Double::with_nodes(nodes)),
            server: Some(server),
        }
    }

    /// `kubectl pleg` with these arguments, for this server.
    pub fn kubectl(&self, args: &[&str]) -> Pleg {
        let kubeconfig = self.kubeconfig();
        Pleg::as_plugin(args).env("KUBECONFIG", kubeconfig.to_str().unwrap())
    }

    /// The candidates for `kubectl pleg WORDS<TAB>`.
    pub fn complete(&self, words: &[&str]) -> String {
        let kubeconfig = self.kubeconfig();
        let pleg = Pleg::as_completer(words).env("KUBECONFIG", kubeconfig.to_str().unwrap());
        let ended = pleg.run().assert_code(0);
        assert_eq!(ended.err, "");
        ended.out
    }
}

impl Deref for ApiServer {
    type Target = Double;

    fn deref(&self) -> &Double {
        &self.double
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }
}
