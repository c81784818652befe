//! The runtime's own conditions: the answer of `Status`.

use cri::v1;
use serde::{Deserialize, Serialize};

/// The answer of a verbose `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conditions {
    /// `RuntimeReady` and `NetworkReady`, which the kubelet uses.
    pub conditions: Vec<Condition>,
    /// The types of the CNI plugins of the loaded networks, if the runtime reports them.
    pub network_plugins: Vec<String>,
}

/// One condition of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is true.
    pub met: bool,
    /// The runtime's reason, in one word.
    pub reason: String,
    /// The runtime's sentence.
    pub message: String,
}

/// The part of containerd's `cniconfig` that names plugins.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct CniConfig {
    networks: Option<Vec<Network>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Network {
    config: Option<NetworkConfig>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkConfig {
    plugins: Option<Vec<Plugin>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Plugin {
    network: Option<PluginNetwork>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PluginNetwork {
    r#type: String,
}

impl From<v1::StatusResponse> for Conditions {
    fn from(answer: v1::StatusResponse) -> Self {
        let conditions = answer.status.unwrap_or_default().conditions.into_iter();
        let config = answer.info.get("cniconfig");
        let config = config.and_then(|text| serde_json::from_str(text).ok());
        Self {
            conditions: conditions
                .map(|condition| Condition {
                    kind: condition.r#type,
                    met: condition.status,
                    reason: condition.reason,
                    message: condition.message,
                })
                .collect(),
            network_plugins: config.map(plugins).unwrap_or_default(),
        }
    }
}

fn plugins(config: CniConfig) -> Vec<String> {
    let networks = config.networks.into_iter().flatten();
    let configs = networks.filter_map(|network| network.config);
    let plugins = configs.flat_map(|config| config.plugins.unwrap_or_default());
    let types = plugins.filter_map(|plugin| plugin.network);
    let types = types.map(|network| network.r#type);
    types.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugins_of_containerds_verbose_status_are_read() {
        let config = r#"{"PluginDirs":["/opt/cni/bin"],"Networks":[{"Config":{"Name":"cni-loopback",
            "Plugins":[{"Network":{"type":"loopback","ipam":{}},"Source":"{}"}]},"IFName":"lo"},
            {"Config":{"Plugins":[{"Network":{"type":"calico"}},{"Network":{"type":"portmap"}}]}}]}"#;
        let info = [("cniconfig".to_owned(), config.to_owned())].into();
        let answer = v1::StatusResponse { status: None, info };
        let plugins = Conditions::from(answer).network_plugins;
        assert_eq!(plugins, ["loopback", "calico", "portmap"]);
    }

    #[test]
    fn a_configuration_that_is_none_names_no_plugin() {
        for text in ["", "{", "[]", r#"{"Networks":null}"#] {
            let info = [("cniconfig".to_owned(), text.to_owned())].into();
            let answer = v1::StatusResponse { status: None, info };
            assert_eq!(Conditions::from(answer), Conditions::default());
        }
    }
}
