//! `plimsoll capacity`: how many more pods and groups of pods fit.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_advisor::Reference;
use plimsoll_api::{PodKey, Str};
use plimsoll_framework::Registry;

use super::Scene;
use super::explain_group::check_known;
use crate::answers::all_shapes::{self, Limits};
use crate::answers::groups::check_on;
use crate::answers::rebalance::after_pending;
use crate::answers::shapes::{self, Given};
use crate::answers::{Deciders, capacity};
use crate::args::{Capacity, Format};
use crate::canary::Canaries;
use crate::input::{self, Described};
use crate::render::capacity as render;
use crate::render::style::Screen;

/// Answers for the pods of files, for a group of the cluster, or for each sort of pod of the cluster.
pub(crate) fn run(args: &Capacity, registry: &Registry) -> Result<()> {
    let asked = input::read(&args.pod_file)?;
    let scene = Scene::read_beside(&args.cluster, &asked, registry)?;
    let Scene { setup, mut cluster, sources } = scene;
    let deciders = Deciders::of(&setup, registry);
    let canaries = Canaries::new(&args.canary, &setup)?;
    let mut own_names: BTreeMap<PodKey, Str> = BTreeMap::new();
    if let Some(canaries) = &canaries {
        let names = cluster.pods.iter().map(|pod| (pod.key.clone(), pod.scheduler_name.clone()));
        own_names.extend(names);
        canaries.assign(&mut cluster);
    }
    if args.after_pending {
        cluster = after_pending(deciders.scheduler()?, cluster, usize::MAX)?;
    }
    let answer = if args.all_shapes {
        let mut given = all_shapes::of_cluster(deciders, &cluster, None, usize::MAX)
            .expect("there is no limit on files");
        with_own_names(&mut given, &own_names);
        let chosen = capacity::choose_profiles(canaries.as_ref(), &mut given);
        let given = given.into_iter().zip(chosen).collect();
        let limits = Limits { each: args.limit, all: usize::MAX };
        let counted = all_shapes::count(deciders, &cluster, given, limits)?;
        counted.expect("there is no limit for all shapes together")
    } else {
        let options = &deciders.options;
        let mut given = if let Some(group) = &args.group {
            check_on(options)?;
            check_known(&cluster, group)?;
            let manifests = input::Manifests::of(&sources, &registry.kinds());
            let find = |object: &Reference| manifests.find(&object.to_string());
            let group = shapes::group_of_cluster(group, options, &cluster, &find)?;
            let mut given = vec![Given::Group(group)];
            with_own_names(&mut given, &own_names);
            given
        } else {
            let described = Described::of(&asked)?;
            shapes::given(described, options, &cluster)?
        };
        let chosen = capacity::choose_profiles(canaries.as_ref(), &mut given);
        capacity::of_given(deciders, &cluster, &given, (args.limit, args.remedies))?.with(chosen)
    };
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &answer)?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => render::answer(&mut anstream::stdout(), &answer, Screen::stdout())?,
    }
    Ok(())
}

/// Gives pods the scheduler names that they have of themselves, so that rules can choose again.
fn with_own_names(given: &mut [Given], own_names: &BTreeMap<PodKey, Str>) {
    for pod in given.iter_mut().flat_map(Given::pods_mut) {
        if let Some(name) = own_names.get(&pod.key) {
            pod.scheduler_name.clone_from(name);
        }
    }
}
