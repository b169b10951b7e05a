//! ImageLocalityPriority: nodes that hold the pod's images.

use plimsoll_api::Node;

use crate::{MAX_PRIORITY, Points, Priority, Raw, Subject};

const MB: i64 = 1024 * 1024;
/// Below this many bytes images say nothing.
const MIN_IMAGE_SIZE: i64 = 23 * MB;
/// From this many bytes on more makes no difference.
const MAX_IMAGE_SIZE: i64 = 1000 * MB;

/// Prefers nodes that hold much of what the pod's containers need.
///
/// The map step adds up the bytes of the containers' images that lie on the node; the reduce step gives
/// 0 points below 23 MB (of 1024 * 1024 bytes), 10 from 1000 MB on, and between them `10 * (sum - 23 MB)
/// / (1000 MB - 23 MB) + 1` in whole numbers. Init containers do not count.
///
/// As in 1.5. 1.12 and later count an image less the fewer nodes have it, and add no point between the
/// limits. An image without a tag is looked for as `:latest`, as in 1.12 and later.
#[derive(Clone, Copy, Debug)]
pub struct ImageLocality;

impl Priority for ImageLocality {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let wanted = subject.pod.images.of_containers();
        let held = |node: &Node| {
            let sizes = wanted.iter().filter_map(|name| {
                node.images.iter().find(|image| image.names.contains(name)).map(|image| image.size)
            });
            Raw(sizes.fold(0, i64::wrapping_add))
        };
        subject.nodes().map(held).collect()
    }

    fn reduce(&self, _: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        raw.iter().map(|size| Points(of_size(size.0))).collect()
    }
}

/// The points for so many bytes. As in image_locality.go, calculateScoreFromSize.
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
    use crate::testing::{check, expect};

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
            &ImageLocality,
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
}
