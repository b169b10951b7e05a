//! The rows: one for each kind. Releases are those in which kube-apiserver served the version without being asked.

use super::Trait::{
    BareStatus, BornWithStatus, CreatedByUpdate, Generation, NeedsVersion, ReturnsDeleted, Status,
};
use super::{ResourceKind, ServedVersion, StoredForm};

const NEWEST: u32 = u32::MAX;

const fn served(group: &'static str, version: &'static str) -> ServedVersion {
    between(group, version, 20, NEWEST)
}

const fn between(
    group: &'static str,
    version: &'static str,
    since: u32,
    until: u32,
) -> ServedVersion {
    ServedVersion { group, version, since, until, by_default: true, form: StoredForm::Stored }
}

const fn alpha(group: &'static str, version: &'static str, since: u32) -> ServedVersion {
    ServedVersion {
        group,
        version,
        since,
        until: NEWEST,
        by_default: false,
        form: StoredForm::Stored,
    }
}

const fn kind(
    kind: &'static str,
    plural: &'static str,
    served: &'static [ServedVersion],
) -> ResourceKind {
    ResourceKind { kind, plural, short: &[], namespaced: true, served, traits: &[], fields: &[] }
}

impl ResourceKind {
    const fn short(mut self, short: &'static [&'static str]) -> Self {
        self.short = short;
        self
    }

    const fn of_cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    const fn with(mut self, traits: &'static [super::Trait]) -> Self {
        self.traits = traits;
        self
    }

    const fn fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.fields = fields;
        self
    }
}

const CORE: &[ServedVersion] = &[served("", "v1")];
const APPS: &[ServedVersion] = &[served("apps", "v1")];
const STORAGE: &[ServedVersion] = &[served("storage.k8s.io", "v1")];
const RBAC: &[ServedVersion] = &[served("rbac.authorization.k8s.io", "v1")];
const DEVICES: &str = "resource.k8s.io";
const DRA: &[ServedVersion] = &[
    between(DEVICES, "v1", 34, NEWEST),
    alpha(DEVICES, "v1beta2", 33),
    ServedVersion { form: StoredForm::Flat, ..alpha(DEVICES, "v1beta1", 32) },
];
const TAINT_RULES: &[ServedVersion] =
    &[alpha(DEVICES, "v1beta2", 36), alpha(DEVICES, "v1alpha3", 33)];
const EVENTS: &[ServedVersion] =
    &[served("", "v1"), ServedVersion { form: StoredForm::Event, ..served("events.k8s.io", "v1") }];

/// The table. Fields: as `SelectableFields` and the conversion of field labels in kube-apiserver.
pub(crate) const KINDS: &[ResourceKind] = &[
    kind("ConfigMap", "configmaps", CORE).short(&["cm"]),
    kind("Endpoints", "endpoints", CORE).short(&["ep"]).with(&[CreatedByUpdate]),
    kind("Event", "events", EVENTS).short(&["ev"]).with(&[CreatedByUpdate]).fields(EVENT_FIELDS),
    kind("LimitRange", "limitranges", CORE).short(&["limits"]).with(&[CreatedByUpdate]),
    kind("Namespace", "namespaces", CORE)
        .short(&["ns"])
        .of_cluster()
        .with(&[Status])
        .fields(&[("status.phase", "/status/phase")]),
    kind("Node", "nodes", CORE)
        .short(&["no"])
        .of_cluster()
        .with(&[Status, BornWithStatus])
        .fields(&[("spec.unschedulable", "/spec/unschedulable")]),
    kind("PersistentVolumeClaim", "persistentvolumeclaims", CORE)
        .short(&["pvc"])
        .with(&[Status, ReturnsDeleted]),
    kind("PersistentVolume", "persistentvolumes", CORE)
        .short(&["pv"])
        .of_cluster()
        .with(&[Status, ReturnsDeleted]),
    kind("Pod", "pods", CORE)
        .short(&["po"])
        .with(&[Status, Generation, ReturnsDeleted])
        .fields(POD_FIELDS),
    kind("PodTemplate", "podtemplates", CORE).with(&[ReturnsDeleted]),
    kind("ReplicationController", "replicationcontrollers", CORE)
        .short(&["rc"])
        .with(&[Status, Generation])
        .fields(&[("status.replicas", "/status/replicas")]),
    kind("ResourceQuota", "resourcequotas", CORE).short(&["quota"]).with(&[Status, ReturnsDeleted]),
    kind("Secret", "secrets", CORE).fields(&[("type", "/type")]),
    kind("ServiceAccount", "serviceaccounts", CORE).short(&["sa"]).with(&[ReturnsDeleted]),
    kind("Service", "services", CORE)
        .short(&["svc"])
        .with(&[Status, CreatedByUpdate, ReturnsDeleted])
        .fields(&[("spec.clusterIP", "/spec/clusterIP"), ("spec.type", "/spec/type")]),
    kind("DaemonSet", "daemonsets", APPS).short(&["ds"]).with(&[Status, Generation]),
    kind("Deployment", "deployments", APPS).short(&["deploy"]).with(&[Status, Generation]),
    kind("ReplicaSet", "replicasets", APPS)
        .short(&["rs"])
        .with(&[Status, Generation])
        .fields(&[("status.replicas", "/status/replicas")]),
    kind("StatefulSet", "statefulsets", APPS).short(&["sts"]).with(&[Status, Generation]),
    kind("Lease", "leases", &[served("coordination.k8s.io", "v1")])
        .with(&[CreatedByUpdate, NeedsVersion]),
    kind("EndpointSlice", "endpointslices", &[between("discovery.k8s.io", "v1", 21, NEWEST)]),
    kind("RuntimeClass", "runtimeclasses", &[served("node.k8s.io", "v1")]).of_cluster(),
    kind(
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        &[between("policy", "v1", 21, NEWEST), between("policy", "v1beta1", 20, 24)],
    )
    .short(&["pdb"])
    .with(&[Status, Generation, NeedsVersion]),
    kind("ClusterRoleBinding", "clusterrolebindings", RBAC).of_cluster(),
    kind("ClusterRole", "clusterroles", RBAC).of_cluster(),
    kind("RoleBinding", "rolebindings", RBAC),
    kind("Role", "roles", RBAC),
    kind("DeviceClass", "deviceclasses", DRA).of_cluster().with(&[Generation]),
    kind("ResourceClaim", "resourceclaims", DRA).with(&[Status, BareStatus]),
    kind("ResourceClaimTemplate", "resourceclaimtemplates", DRA),
    kind("DeviceTaintRule", "devicetaintrules", TAINT_RULES)
        .of_cluster()
        .with(&[Status, Generation]),
    kind("ResourceSlice", "resourceslices", DRA)
        .of_cluster()
        .with(&[Generation])
        .fields(&[("spec.nodeName", "/spec/nodeName"), ("spec.driver", "/spec/driver")]),
    kind("PriorityClass", "priorityclasses", &[served("scheduling.k8s.io", "v1")])
        .short(&["pc"])
        .of_cluster(),
    kind(
        "PodGroup",
        "podgroups",
        &[
            alpha("scheduling.k8s.io", "v1beta1", 37),
            alpha("scheduling.k8s.io", "v1alpha3", 37),
            ServedVersion { until: 36, ..alpha("scheduling.k8s.io", "v1alpha2", 36) },
        ],
    )
    .with(&[Status, Generation]),
    kind("CompositePodGroup", "compositepodgroups", &[alpha("scheduling.k8s.io", "v1alpha3", 37)])
        .with(&[Status, Generation]),
    kind(
        "Workload",
        "workloads",
        &[
            ServedVersion { until: 36, ..alpha("scheduling.k8s.io", "v1alpha2", 36) },
            ServedVersion { until: 35, ..alpha("scheduling.k8s.io", "v1alpha1", 35) },
        ],
    ),
    kind("CSIDriver", "csidrivers", STORAGE).of_cluster().with(&[NeedsVersion]),
    kind("CSINode", "csinodes", STORAGE).of_cluster().with(&[NeedsVersion]),
    kind(
        "CSIStorageCapacity",
        "csistoragecapacities",
        &[
            between("storage.k8s.io", "v1", 24, NEWEST),
            between("storage.k8s.io", "v1beta1", 21, 26),
        ],
    )
    .with(&[NeedsVersion]),
    kind("StorageClass", "storageclasses", STORAGE).short(&["sc"]).of_cluster(),
    kind("VolumeAttachment", "volumeattachments", STORAGE)
        .of_cluster()
        .with(&[Status, NeedsVersion]),
];

/// Kubernetes 1.36 asks the same of pods for kubelets, schedulers and `kubectl describe node`.
const POD_FIELDS: &[(&str, &str)] = &[
    ("spec.nodeName", "/spec/nodeName"),
    ("spec.restartPolicy", "/spec/restartPolicy"),
    ("spec.schedulerName", "/spec/schedulerName"),
    ("spec.serviceAccountName", "/spec/serviceAccountName"),
    ("spec.hostNetwork", "/spec/hostNetwork"),
    ("status.phase", "/status/phase"),
    ("status.podIP", "/status/podIP"),
    ("status.nominatedNodeName", "/status/nominatedNodeName"),
];

/// Both groups' names of the same fields.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("regarding.kind", "/involvedObject/kind"),
    ("regarding.namespace", "/involvedObject/namespace"),
    ("regarding.name", "/involvedObject/name"),
    ("regarding.uid", "/involvedObject/uid"),
    ("regarding.apiVersion", "/involvedObject/apiVersion"),
    ("regarding.resourceVersion", "/involvedObject/resourceVersion"),
    ("regarding.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
    ("reportingController", "/reportingComponent"),
    ("source", "/source/component"),
    ("type", "/type"),
];
