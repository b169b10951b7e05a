//! Container images: those that a node has and those that a pod uses.

use serde::{Deserialize, Serialize};

use crate::Str;

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeImage {
    /// All names it goes by, as the node reports them.
    pub names: Vec<Str>,
    /// Its size in bytes.
    pub size: i64,
}

/// The images that a pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodImages {
    /// Normalised names, of init containers, containers and image volumes, with repetitions.
    pub names: Vec<Str>,
    /// How many init containers and containers the pod has; image volumes do not count.
    pub containers: usize,
    /// How many of them are init containers, whose names come first.
    pub init_containers: usize,
}

impl PodImages {
    /// The names of the containers' images alone.
    pub fn of_containers(&self) -> &[Str] {
        self.names.get(self.init_containers..self.containers).unwrap_or_default()
    }
}

/// The name under which nodes report an image: `:latest` is added if there is no tag.
///
/// As in image_locality.go, normalizedImageName: a colon before the last slash belongs to the port of
/// a registry.
pub fn normalized_image_name(name: &str) -> Str {
    let tagged = match (name.rfind(':'), name.rfind('/')) {
        (Some(colon), Some(slash)) => slash < colon,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if tagged { Str::from(name) } else { Str::from(format!("{name}:latest")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_is_added_only_if_there_is_no_tag() {
        for (name, expected) in [
            ("nginx", "nginx:latest"),
            ("nginx:1.25", "nginx:1.25"),
            ("host:5000/nginx", "host:5000/nginx:latest"),
            ("host:5000/nginx:1", "host:5000/nginx:1"),
            ("nginx@sha256:aa", "nginx@sha256:aa"),
        ] {
            assert_eq!(normalized_image_name(name), expected);
        }
    }
}
