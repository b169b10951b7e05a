//! ImageLocality: nodes that already have a pod's images.

use plimsoll_framework::prelude::*;

const MIB: i64 = 1024 * 1024;

/// Smaller images are pulled so fast that they do not matter.
const MIN_THRESHOLD: i64 = 23 * MIB;

/// The size for each image that gives the highest score.
const MAX_THRESHOLD: i64 = 1000 * MIB;

/// Prefers nodes that have large images of the pod.
///
/// A pod starts sooner if nothing has to be pulled. An image counts with its size in bytes times the
/// fraction of nodes that have it, so that pods with the same image do not all go to the first node
/// that has it. The score is 0 up to 23 MiB and 100 from 1000 MiB for each image on; up to 1.36, image
/// volumes do not count for the latter. With an image of 500 MiB on every other node, a pod of one
/// container gives those nodes 23 and the others 0.
///
/// In kube-scheduler the fraction dates from the last change of the node; here it is current.
#[derive(Clone, Copy, Debug)]
pub struct ImageLocality {
    counted: CountedImages,
}

/// Which images multiply [`MAX_THRESHOLD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedImages {
    /// Those of containers and init containers, although images of volumes count for nodes: up to 1.36.
    OfContainers,
    /// All.
    All,
}

impl CountedImages {
    fn of(release: Release) -> Self {
        match release {
            Release::V1_36 => CountedImages::OfContainers,
            Release::V1_37 => CountedImages::All,
        }
    }

    fn images(self, wanted: &PodImages) -> usize {
        match self {
            CountedImages::OfContainers => wanted.containers,
            CountedImages::All => wanted.names.len(),
        }
    }
}

/// How much each image of a pod counts on a node that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageScores {
    /// Size times fraction of nodes, for each image that any node has, with repetitions.
    images: Vec<(Str, i64)>,
    /// The sum that gives the highest score.
    most: i64,
}

impl Plugin for ImageLocality {
    const NAME: &'static str = "ImageLocality";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        ImageLocality { counted: CountedImages::of(gates.release()) }
    }
}

impl PreScore for ImageLocality {
    type Pod = PodImages;
    type Node = NodeImages;
    type Cluster = (Images, Nodes<()>);
    type State = ImageScores;

    fn pre_score(
        &self,
        wanted: &PodImages,
        _: Feasible<'_, NodeImages>,
        cluster: Ref<'_, Self::Cluster>,
    ) -> Option<ImageScores> {
        self.state(wanted, cluster)
    }

    fn score(&self, worth: &ImageScores, _: Row, images: &[NodeImage]) -> i64 {
        let holds = |name: &Str| images.iter().any(|image| image.names.contains(name));
        let held = worth.images.iter().filter(|(name, _)| holds(name));
        // Sizes that no disk has count as the largest number, where they wrap around in Go.
        within_thresholds(held.fold(0, |sum: i64, (_, size)| sum.saturating_add(*size)), worth.most)
    }
}

impl ScoreByNode for ImageLocality {
    fn state(
        &self,
        wanted: &PodImages,
        (held, nodes): Ref<'_, (Images, Nodes<()>)>,
    ) -> Option<ImageScores> {
        let worth = |name: &Str| {
            let (size, holders) = held.get(name)?;
            Some((name.clone(), scaled(size, holders, nodes.len())))
        };
        let n_images = self.counted.images(wanted);
        let n_images = i64::try_from(n_images).expect("a pod has few images");
        Some(ImageScores {
            images: wanted.names.iter().filter_map(worth).collect(),
            most: MAX_THRESHOLD * n_images,
        })
    }
}

/// The bytes for which an image counts. As in image_locality.go, scaledImageScore, in floating point
/// and truncated.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the very rounding is what must be equal"
)]
fn scaled(size: i64, holders: usize, nodes: usize) -> i64 {
    let share = holders as f64 / nodes as f64;
    (size as f64 * share) as i64
}

/// From 0 at the lower threshold to 100 at `most`. As in image_locality.go, calculatePriority,
/// including the case that a pod has no image and `most` is the smaller threshold.
fn within_thresholds(sum: i64, most: i64) -> i64 {
    let bounded = if sum < MIN_THRESHOLD { MIN_THRESHOLD } else { sum.min(most) };
    MAX_NODE_SCORE * (bounded - MIN_THRESHOLD) / (most - MIN_THRESHOLD)
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<ImageLocality>().pre_score().not_at(Point::PreScore).score_by_node().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Node;
    use plimsoll_testkit::{check, expect};

    use super::*;

    /// The scores of nodes with these images, each with its size in MiB, for a pod with one container
    /// for each image.
    fn scores(wanted: &[&str], nodes: &[&[(&str, i64)]]) -> Vec<i64> {
        let names = wanted.iter().map(|&name| name.into()).collect();
        let images = PodImages { names, containers: wanted.len(), ..PodImages::default() };
        let pod = PodInfo::new(PodTemplate { images, ..PodTemplate::default() });
        let (mut columns, mut stores) = (Columns::default(), Stores::default());
        for (i, images) in nodes.iter().enumerate() {
            let image = |&(name, size): &(&str, i64)| NodeImage {
                names: vec![Str::from("other"), name.into()],
                size: size * MIB,
            };
            let images = images.iter().map(image).collect();
            let node = Node { name: format!("n{i}").into(), images, ..Node::default() };
            stores.images.set(None, Some(&node));
            columns.add(node);
        }
        let view = View { nodes: &columns, stores: &stores };
        let rows: Vec<Row> = columns.rows().collect();
        let points = entry().make(None, &FeatureGates::default()).expect("there are no args");
        let point = points.score.expect("the plugin scores");
        let scored = point.score(&pod, &mut CycleState::new(), &view, &rows);
        scored.expect("no pod is skipped").into_iter().map(|one| one.score).collect()
    }

    #[test]
    fn a_node_that_holds_more_of_the_images_scores_higher() {
        let nodes: [&[_]; 3] = [&[("a:1", 900), ("b:1", 600)], &[("a:1", 900)], &[]];
        assert_eq!(scores(&["a:1", "b:1"], &nodes), [39, 29, 0]);
    }

    #[test]
    fn an_image_counts_by_the_share_of_nodes_that_hold_it() {
        assert_eq!(scores(&["a:1"], &[&[("a:1", 500)], &[]]), [23, 0]);
        assert_eq!(scores(&["a:1"], &[&[("a:1", 500)], &[("a:1", 500)]]), [48, 48]);
    }

    #[test]
    fn small_images_say_nothing_and_huge_ones_no_more_than_large_ones() {
        assert_eq!(scores(&["a:1"], &[&[("a:1", 23)]]), [0]);
        assert_eq!(scores(&["a:1"], &[&[("a:1", 4000)]]), [100]);
    }

    #[test]
    fn containers_with_the_same_image_count_it_each() {
        let nodes: [&[_]; 1] = [&[("a:1", 500)]];
        assert_eq!(scores(&["a:1", "a:1"], &nodes), [49]);
        assert_eq!(scores(&["a:1", "b:1"], &nodes), [24]);
    }

    #[test]
    fn the_size_of_an_image_is_what_the_first_node_said() {
        let nodes: [&[_]; 2] = [&[("a:1", 500)], &[("a:1", 900)]];
        assert_eq!(scores(&["a:1"], &nodes), [48, 48]);
    }

    #[test]
    fn images_of_volumes_count_for_the_highest_score_since_1_37() {
        let scenario = |release| {
            format!(
                r#"
                release {release}
                node n {{"images": [{{"names": ["a:1", "data:1"], "sizeBytes": 629145600}}]}}
                pod p {{"image": "a:1", "spec": {{"volumes": [
                    {{"name": "v", "image": {{"reference": "data:1"}}}}]}}}}
                "#
            )
        };
        check(
            entry(),
            &scenario("1.36"),
            &expect![[r#"
            p n score 100
        "#]],
        );
        check(
            entry(),
            &scenario("1.37"),
            &expect![[r#"
            p n score 59
        "#]],
        );
    }

    #[test]
    fn a_pod_that_wants_images_no_node_holds_scores_all_nodes_zero() {
        assert_eq!(scores(&["a:1"], &[&[("b:1", 500)], &[]]), [0, 0]);
    }
}
