//! The methods of CRI that the simulated runtime has, by name.

use std::str::FromStr;

use pleg::runtime::Call;

macro_rules! rpcs {
    ($($name:ident: $subject:ident,)*) => {
        /// A method of CRI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rpc {
            $(#[doc = concat!("`", stringify!($name), "`.")] $name,)*
        }

        impl Rpc {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in CRI.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What the id in its request is of.
            pub fn subject(self) -> Subject {
                match self {
                    $(Self::$name => Subject::$subject,)*
                }
            }
        }
    };
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The node as a whole, or something that has no id yet.
    Node,
    /// One sandbox.
    Sandbox,
    /// One container.
    Container,
}

rpcs! {
    Version: Node,
    Status: Node,
    ListPodSandbox: Node,
    ListContainers: Node,
    PodSandboxStatus: Sandbox,
    ContainerStatus: Container,
    StreamPodSandboxes: Node,
    StreamContainers: Node,
    GetContainerEvents: Node,
    RunPodSandbox: Node,
    StopPodSandbox: Sandbox,
    RemovePodSandbox: Sandbox,
    CreateContainer: Sandbox,
    StartContainer: Container,
    StopContainer: Container,
    RemoveContainer: Container,
    ListImages: Node,
    ImageStatus: Node,
    PullImage: Node,
    ImageFsInfo: Node,
}

impl From<Call> for Rpc {
    fn from(call: Call) -> Self {
        match call {
            Call::Version => Self::Version,
            Call::ListPodSandbox => Self::ListPodSandbox,
            Call::ListContainers => Self::ListContainers,
            Call::PodSandboxStatus => Self::PodSandboxStatus,
            Call::ContainerStatus => Self::ContainerStatus,
            Call::GetContainerEvents => Self::GetContainerEvents,
        }
    }
}

/// There is no method of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchRpc;

impl FromStr for Rpc {
    type Err = NoSuchRpc;

    fn from_str(name: &str) -> Result<Self, NoSuchRpc> {
        let named = Self::ALL.iter().find(|rpc| rpc.name() == name);
        named.copied().ok_or(NoSuchRpc)
    }
}
