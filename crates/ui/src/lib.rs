//! The page that shows a cluster in a browser.
//!
//! [`asset`] has the files of the page, which are built from `web/` and are part of the program. [`Question`] is what the
//! page asks, and [`Picture`] answers: an index of the cluster at one moment, from which every document is taken. What shows no
//! single pods is answered by [`Counts`], which take less memory. They serve `plimsoll run`, whose server authorizes requests,
//! and `plimsoll serve`, which shows files through [`PlainServer`] on loopback.

mod assets;
mod counts;
mod documents;
mod events;
mod picture;
mod plain;
mod question;
mod queued;
mod timeline;

pub use self::assets::{Asset, SECURITY_HEADERS, asset};
pub use self::counts::{CountedCluster, Counts};
pub use self::documents::{
    Difference, SeenConfiguration, differences, part_of_report, report_namespaces,
};
pub use self::events::{PING, changes};
pub use self::picture::{KnownDecision, Picture, PodState, Views};
pub use self::plain::{ListenError, PlainServer, Source};
pub use self::question::{
    BadQuestion, Failure, MOST_PODS, PodsQuestion, Question, ShadowQuestion, WhyGroupQuestion,
    WhyQuestion,
};
pub use self::queued::{ClusterAndQueue, QueuedRow};
pub use self::timeline::{Chart, Line, Timeline};
