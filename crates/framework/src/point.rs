//! The list of extension points.

macro_rules! points {
    ($($(#[doc = $doc:literal])+ $name:ident = $key:literal),+ $(,)?) => {
        /// The extension points.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Point {
            $($(#[doc = $doc])+ $name),+
        }

        impl Point {
            /// All points in the order in which a pod passes them, and then those of pod groups.
            pub const ALL: [Point; [$($key),+].len()] = [$(Point::$name),+];

            /// The name Kubernetes uses for it, such as `PreFilter`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Point::$name => stringify!($name)),+
                }
            }

            /// The field of `plugins` in a configuration, such as `preFilter`.
            pub const fn key(self) -> &'static str {
                match self {
                    $(Point::$name => $key),+
                }
            }

            /// The name of the interface upstream, which its error messages use, such as `PreFilterPlugin`.
            pub const fn interface(self) -> &'static str {
                match self {
                    $(Point::$name => concat!(stringify!($name), "Plugin")),+
                }
            }
        }
    };
}

points! {
    /// May the pod enter the queue?
    PreEnqueue = "preEnqueue",
    /// The order of the queue.
    QueueSort = "queueSort",
    /// Looks at pod and cluster before nodes are judged.
    PreFilter = "preFilter",
    /// May the pod run on this node?
    Filter = "filter",
    /// No node was found: can room be made for the pod?
    PostFilter = "postFilter",
    /// Looks at the feasible nodes before they are scored.
    PreScore = "preScore",
    /// How good is this node?
    Score = "score",
    /// A node was chosen: reserves what the pod needs.
    Reserve = "reserve",
    /// May the pod be bound now?
    Permit = "permit",
    /// Does what is needed before binding.
    PreBind = "preBind",
    /// Binds the pod.
    Bind = "bind",
    /// Does what is needed after binding.
    PostBind = "postBind",
    /// Which placements does a pod group have?
    PlacementGenerate = "placementGenerate",
    /// How good is this placement of a pod group?
    PlacementScore = "placementScore",
    /// A pod group did not fit: can room be made for all of it? Since 1.37; before, those at PostFilter are asked.
    PodGroupPostFilter = "podGroupPostFilter",
}

impl Point {
    /// Its place in [`Point::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether plugins have a weight here.
    pub const fn is_weighed(self) -> bool {
        matches!(self, Self::Score | Self::PlacementScore)
    }
}
