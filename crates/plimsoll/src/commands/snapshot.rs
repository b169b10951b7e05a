//! `plimsoll snapshot`: writes everything that decisions depend on to one file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use plimsoll_api::{KindRef, Kinds, ResourceClaimTemplate};
use plimsoll_framework::Registry;
use plimsoll_kube::client::{Access, connect_read_only};
use plimsoll_kube::listing::{KindListing, list_all};
use serde_json::{Value, json};

use super::kubectl::{answer, open};
use crate::args::Snapshot;
use crate::input;
use crate::notices;
use crate::snapshot::{Belief, NameHash, QUEUE, Reduction, census, write};
use crate::wording::count;

/// The smallest key of hashes, in bytes. With a shorter one, names could be found by trying keys.
const LEAST_KEY: usize = 16;
/// The namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Writes a snapshot.
pub(crate) fn run(args: &Snapshot, registry: &Registry) -> Result<()> {
    let kinds = registry.kinds().with(KindRef::of::<ResourceClaimTemplate>());
    let reduction = Reduction { annotations: args.keep_annotation.clone() };
    let key = args.hash_names.then(|| hash_key(args.hash_key.as_deref())).transpose()?;
    let mut queue = Vec::new();
    let mut manifests = match args.files.as_slice() {
        [] => {
            let (mut manifests, belief) = of_cluster(args, registry, &reduction)?;
            if let Some(belief) = belief {
                let believed = belief.put_over(&mut manifests);
                believed.notes.iter().for_each(notices::note);
                queue = believed.queue;
            }
            manifests
        }
        files => {
            let (manifests, left_out) = input::reduced(&input::read(files)?, &kinds, &reduction)?;
            if !left_out.is_empty() {
                let kinds = left_out.iter().map(String::as_str);
                notices::note(format_args!(
                    "left out, as no decision needs them: {}",
                    census(kinds)
                ));
            }
            manifests
        }
    };
    if let Some(key) = key {
        hash(&mut manifests, &key, &kinds)?;
    }
    // They name nothing, so they are the same with hashed names.
    for (at, place) in queue {
        manifests[at]["metadata"]["annotations"][QUEUE] = json!(place);
    }
    write(&args.output, manifests.iter().map(Value::to_string))?;
    let there = census(manifests.iter().filter_map(|manifest| manifest["kind"].as_str()));
    notices::note(format_args!("{}: {there}", args.output.display()));
    Ok(())
}

/// Everything in a cluster, reduced, and what the instance that runs in it believes, if that is asked for.
fn of_cluster(
    args: &Snapshot,
    registry: &Registry,
    reduction: &Reduction,
) -> Result<(Vec<Value>, Option<Belief>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let (kubeconfig, master) = (args.kubeconfig.clone(), args.master.clone());
    let access = Access { kubeconfig, master, ..Access::default() };
    let kinds: Vec<KindRef> = registry.kinds().iter().collect();
    let (listing, belief) = runtime.block_on(async {
        // An instance that cannot be asked is an error before everything is read.
        let session = match args.instance {
            true => Some(open(access.clone(), args.scheduler.clone()).await?),
            false => None,
        };
        let connection = connect_read_only(access, Arc::default()).await?;
        let listing = list_all(&connection, &kinds).await?;
        let belief = match &session {
            Some(session) => Some(Belief::of(&answer(session, "/api/v1/instance").await?)?),
            None => None,
        };
        anyhow::Ok((listing, belief))
    })?;
    for kind in listing.missing {
        let Some(without) = kind.without() else {
            bail!("the API server does not have {}: is it a Kubernetes cluster?", kind.plural());
        };
        notices::note(format_args!("the API server does not have {kind}: {without}"));
    }
    let mut manifests = Vec::new();
    for KindListing { kind, api_version, objects } in listing.kinds {
        let objects = match (objects, kind.without()) {
            (Ok(objects), _) => objects,
            (Err(error), None) => bail!("cannot list {}: {error}", kind.plural()),
            (Err(error), Some(without)) => {
                let remedy = match error.is_forbidden {
                    true => format!("; allow the verb list on {}", kind.plural()),
                    false => String::new(),
                };
                notices::warning(format_args!(
                    "{} are not in the snapshot: {error}: {without}{remedy}",
                    kind.plural()
                ));
                continue;
            }
        };
        let reader = kind.reader(api_version).context("discovery finds versions that are read")?;
        for text in objects {
            let manifest: Value = serde_json::from_str(&text)
                .with_context(|| format!("{}: is not JSON", kind.plural()))?;
            match reduction.of(reader, &manifest) {
                Ok(reduced) => manifests.push(reduced),
                Err(error) => notices::warning(format_args!(
                    "{kind} {} is not in the snapshot, since it cannot be read: {error}",
                    name(&manifest)
                )),
            }
        }
    }
    Ok((manifests, belief))
}

fn name(manifest: &Value) -> String {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default().to_owned();
    match text("namespace").as_str() {
        "" => text("name"),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

fn hash_key(file: Option<&Path>) -> Result<Vec<u8>> {
    let Some(file) = file else { return Ok(rand::random::<[u8; 32]>().to_vec()) };
    let name = file.display();
    let key = fs::read(file).with_context(|| format!("--hash-key: {name}: cannot be read"))?;
    ensure!(
        LEAST_KEY <= key.len(),
        "--hash-key: {name}: has {}, and must have at least {LEAST_KEY}: head -c 32 /dev/urandom > {name}",
        count(key.len(), "byte")
    );
    Ok(key)
}

/// Hashes all names, and makes sure that the result can be read.
fn hash(manifests: &mut [Value], key: &[u8], kinds: &Kinds) -> Result<()> {
    let reader_of =
        |manifest: &Value| kinds.find(manifest["apiVersion"].as_str()?, manifest["kind"].as_str()?);
    for manifest in &mut *manifests {
        let is_namespaced = reader_of(manifest).is_some_and(|(kind, _)| kind.is_namespaced());
        if is_namespaced && manifest["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
            manifest["metadata"]["namespace"] = json!(DEFAULT_NAMESPACE);
        }
    }
    NameHash::new(key).hash_all(manifests)?;
    let mut unread = BTreeMap::new();
    for manifest in &*manifests {
        if let Err(error) = kinds.object(manifest) {
            unread.entry(error.to_string()).or_insert_with(|| name(manifest));
        }
    }
    if let Some((error, name)) = unread.into_iter().next() {
        bail!(
            "{name} cannot be read with hashed names: {error}: a bug, please report it; --hash-names cannot be used"
        );
    }
    Ok(())
}
