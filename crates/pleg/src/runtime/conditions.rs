//! The runtime's own conditions: the answer to `Status`.

use cri::v1;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer to a verbose `Status`.
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
    /// The runtime's reason, as one word.
    pub reason: String,
    /// The runtime's sentence.
    pub message: String,
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
            network_plugins: config.as_ref().map(plugins).unwrap_or_default(),
        }
    }
}

/// The types of the plugins in containerd's `cniconfig`.
fn plugins(config: &Value) -> Vec<String> {
    let networks = config["Networks"].as_array().into_iter().flatten();
    networks
        .filter_map(|network| network["Config"]["Plugins"].as_array())
        .flatten()
        .filter_map(|plugin| plugin["Network"]["type"].as_str())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
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
    fn an_invalid_configuration_names_no_plugin() {
        for text in ["", "{", "[]", r#"{"Networks":null}"#] {
            let info = [("cniconfig".to_owned(), text.to_owned())].into();
            let answer = v1::StatusResponse { status: None, info };
            assert_eq!(Conditions::from(answer), Conditions::default());
        }
    }
}
