//! ImageLocalityPriority: nodes that have the pod's images.

use plimsoll_api::{Node, Str};

use crate::priorities::{MAX_PRIORITY, OldRelease, Points, Priority, Raw, Subject};

const MB: i64 = 1024 * 1024;
/// Images of fewer bytes in total give no points.
const MIN_IMAGE_SIZE: i64 = 23 * MB;
/// Images of this many bytes in total give all points.
const MAX_IMAGE_SIZE: i64 = 1000 * MB;

/// Prefers nodes that already have a large part of the images of the pod's containers.
///
/// The map step adds up the bytes of the containers' images that lie on the node; the reduce step gives
/// 0 points below 23 MB (of 1024 * 1024 bytes), 10 from 1000 MB on, and between them `10 * (sum - 23 MB)
/// / (1000 MB - 23 MB) + 1` in whole numbers. Init containers do not count.
///
/// As in 1.5. 1.16 counts an image less the fewer nodes have it, and adds no point between the limits.
/// An image without a tag is treated as `:latest`, as in 1.12 and later.
#[derive(Clone, Copy, Debug)]
pub struct ImageLocality(pub OldRelease);

impl Priority for ImageLocality {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let wanted = subject.pod.images.of_containers();
        let held = |name: &Str, node: &Node| {
            let held = node.images.iter().find(|image| image.names.contains(name));
            held.map(|image| image.size)
        };
        // The fraction of nodes that have the image.
        let spread = |name: &Str| {
            let having = subject.all_nodes().filter(|(node, _)| held(name, node).is_some()).count();
            ratio(having, subject.view.nodes.len())
        };
        let wanted: Vec<(&Str, Option<f64>)> = match self.0 {
            OldRelease::V1_16 => wanted.iter().map(|name| (name, Some(spread(name)))).collect(),
            OldRelease::V1_5 | OldRelease::Described => {
                wanted.iter().map(|name| (name, None)).collect()
            }
        };
        let sum = |node: &Node| {
            let sizes = wanted.iter().filter_map(|(name, spread)| {
                let size = held(name, node)?;
                Some(spread.map_or(size, |spread| scaled(size, spread)))
            });
            Raw(sizes.fold(0, i64::saturating_add))
        };
        subject.nodes().map(sum).collect()
    }

    fn reduce(&self, _: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        let points = match self.0 {
            OldRelease::V1_16 => of_spread_size,
            OldRelease::V1_5 | OldRelease::Described => of_size,
        };
        raw.iter().map(|size| Points(points(size.0))).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Go converts; nodes are far fewer than 2^52")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// As in image_locality.go of 1.16, scaledImageScore.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the very rounding is what must be equal"
)]
fn scaled(size: i64, spread: f64) -> i64 {
    (size as f64 * spread) as i64
}

/// The points for this many bytes in 1.16. As in image_locality.go, calculatePriority.
fn of_spread_size(sum: i64) -> i64 {
    let sum = sum.clamp(MIN_IMAGE_SIZE, MAX_IMAGE_SIZE);
    MAX_PRIORITY * (sum - MIN_IMAGE_SIZE) / (MAX_IMAGE_SIZE - MIN_IMAGE_SIZE)
}

/// The points for this many bytes. As in image_locality.go, calculateScoreFromSize.
pub fn of_size(sum: i64) -> i64 {
    if sum < MIN_IMAGE_SIZE {
        0
    } else if MAX_IMAGE_SIZE <= sum {
        MAX_PRIORITY
    } else {
        MAX_PRIORITY * (sum - MIN_IMAGE_SIZE) / (MAX_IMAGE_SIZE - MIN_IMAGE_SIZE) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn sizes_fall_into_ten_buckets_between_23_and_1000_megabytes() {
        let cases = [
            (0, 0),
            (23 * MB - 1, 0),
            (23 * MB, 1),
            (40 * MB, 1),
            (140 * MB, 2),
            (250 * MB, 3),
            (512 * MB, 6),
            (902 * MB, 9),
            (903 * MB, 10),
            (1000 * MB - 1, 10),
            (1000 * MB, 10),
            (i64::MAX, 10),
        ];
        for (sum, points) in cases {
            assert_eq!(of_size(sum), points, "{sum} bytes");
        }
    }

    #[test]
    fn the_images_of_all_containers_that_the_node_holds_add_up() {
        check(
            &ImageLocality(OldRelease::Described),
            r#"
            node a {"images": [{"names": ["web:1"], "sizeBytes": 262144000},
                               {"names": ["log@sha256:aa", "log:latest"], "sizeBytes": 41943040}]}
            node b {"images": [{"names": ["init:1"], "sizeBytes": 2000000000}]}
            node c {"images": [{"names": ["web:1"], "sizeBytes": 1048576000}]}
            pod p {"containers": [{"name": "web", "image": "web:1"}, {"name": "log", "image": "log"}],
                   "initContainers": [{"name": "init", "image": "init:1"}]}
            "#,
            &expect![[r#"
                a raw 304087040, 3 points
                b raw 0, 0 points
                c raw 1048576000, 10 points
            "#]],
        );
    }

    #[test]
    fn in_1_16_an_image_counts_less_the_fewer_nodes_have_it() {
        check(
            &ImageLocality(OldRelease::V1_16),
            r#"
            node a {"images": [{"names": ["web:1"], "sizeBytes": 1048576000}]}
            node b {"images": [{"names": ["web:1"], "sizeBytes": 524288000}]}
            node c
            node d
            pod p {"containers": [{"name": "web", "image": "web:1"}]}
            "#,
            &expect![[r#"
                a raw 524288000, 4 points
                b raw 262144000, 2 points
                c raw 0, 0 points
                d raw 0, 0 points
            "#]],
        );
    }
}
