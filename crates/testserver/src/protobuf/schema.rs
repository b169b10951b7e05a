//! The field numbers of the messages that clients send, from the `generated.proto` files of Kubernetes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// How a field is read.
#[derive(Debug)]
pub(super) enum FieldType {
    Text,
    Base64,
    Int,
    Bool,
    /// A time with this many fractional digits.
    Time(usize),
    IntOrText,
    Quantity,
    /// From text to one of the above.
    Map(Box<FieldType>),
    Message(&'static str),
    /// What the server fills in itself.
    Ignored,
}

/// One field of a message.
#[derive(Debug)]
pub(super) struct SchemaField {
    pub(super) name: &'static str,
    pub(super) kind: FieldType,
    pub(super) is_list: bool,
    /// Whether an empty value is written, as for pointers.
    pub(super) is_kept: bool,
}

/// A line is a message: its name, then `number:name:type`. Types are `int`, `bool`, `base64`, `time`, `micro`,
/// `intstr`, `map`, `bytemap`, `quantities`, `ignored` or a message; none is text. `*` marks lists, `!` pointers.
const MESSAGES: &str = "
ObjectMeta 1:name 2:generateName 3:namespace 4:selfLink 5:uid 6:resourceVersion 7:generation:int 8:creationTimestamp:time 9:deletionTimestamp:time 10:deletionGracePeriodSeconds:int! 11:labels:map 12:annotations:map 13:ownerReferences:OwnerReference* 14:finalizers:* 17:managedFields:ignored
OwnerReference 1:kind 3:name 4:uid 5:apiVersion 6:controller:bool! 7:blockOwnerDeletion:bool!
LabelSelector 1:matchLabels:map 2:matchExpressions:LabelSelectorRequirement*
LabelSelectorRequirement 1:key 2:operator 3:values:*
DeleteOptions 1:gracePeriodSeconds:int! 2:preconditions:Preconditions 3:orphanDependents:bool! 4:propagationPolicy 5:dryRun:* 6:ignoreStoreReadErrorWithClusterBreakingPotential:bool!
Preconditions 1:uid 2:resourceVersion
ObjectReference 1:kind 2:namespace 3:name 4:uid 5:apiVersion 6:resourceVersion 7:fieldPath
LocalObjectReference 1:name
Binding 1:metadata:ObjectMeta 2:target:ObjectReference
ConfigMap 1:metadata:ObjectMeta 2:data:map 3:binaryData:bytemap 4:immutable:bool!
Secret 1:metadata:ObjectMeta 2:data:bytemap 3:type 4:stringData:map 5:immutable:bool!
Namespace 1:metadata:ObjectMeta 2:spec:NamespaceSpec 3:status:ignored
NamespaceSpec 1:finalizers:*
ServiceAccount 1:metadata:ObjectMeta 2:secrets:ObjectReference* 3:imagePullSecrets:LocalObjectReference* 4:automountServiceAccountToken:bool!
Event 1:metadata:ObjectMeta 2:involvedObject:ObjectReference 3:reason 4:message 5:source:EventSource 6:firstTimestamp:time 7:lastTimestamp:time 8:count:int 9:type 10:eventTime:micro 11:series:EventSeries 12:action 13:related:ObjectReference 14:reportingComponent 15:reportingInstance
NewEvent 1:metadata:ObjectMeta 2:eventTime:micro 3:series:EventSeries 4:reportingController 5:reportingInstance 6:action 7:reason 8:regarding:ObjectReference 9:related:ObjectReference 10:note 11:type 12:deprecatedSource:EventSource 13:deprecatedFirstTimestamp:time 14:deprecatedLastTimestamp:time 15:deprecatedCount:int
EventSeries 1:count:int 2:lastObservedTime:micro
EventSource 1:component 2:host
Lease 1:metadata:ObjectMeta 2:spec:LeaseSpec
LeaseSpec 1:holderIdentity:! 2:leaseDurationSeconds:int! 3:acquireTime:micro 4:renewTime:micro 5:leaseTransitions:int! 6:strategy 7:preferredHolder
Eviction 1:metadata:ObjectMeta 2:deleteOptions:DeleteOptions
PodDisruptionBudget 1:metadata:ObjectMeta 2:spec:PodDisruptionBudgetSpec 3:status:ignored
PodDisruptionBudgetSpec 1:minAvailable:intstr! 2:selector:LabelSelector 3:maxUnavailable:intstr! 4:unhealthyPodEvictionPolicy
PriorityClass 1:metadata:ObjectMeta 2:value:int! 3:globalDefault:bool 4:description 5:preemptionPolicy
Deployment 1:metadata:ObjectMeta 2:spec:DeploymentSpec 3:status:ignored
DeploymentSpec 1:replicas:int! 2:selector:LabelSelector 3:template:PodTemplateSpec 4:strategy:DeploymentStrategy 5:minReadySeconds:int 6:revisionHistoryLimit:int! 7:paused:bool 9:progressDeadlineSeconds:int!
DeploymentStrategy 1:type 2:rollingUpdate:RollingUpdateDeployment
RollingUpdateDeployment 1:maxUnavailable:intstr! 2:maxSurge:intstr!
PodTemplateSpec 1:metadata:ObjectMeta 2:spec:PodSpec
PodSpec 2:containers:Container* 3:restartPolicy 4:terminationGracePeriodSeconds:int! 5:activeDeadlineSeconds:int! 6:dnsPolicy 7:nodeSelector:map 8:serviceAccountName 9:serviceAccount 10:nodeName 11:hostNetwork:bool 12:hostPID:bool 13:hostIPC:bool 14:securityContext:PodSecurityContext 15:imagePullSecrets:LocalObjectReference* 16:hostname 17:subdomain 19:schedulerName 20:initContainers:Container* 21:automountServiceAccountToken:bool! 22:tolerations:Toleration* 24:priorityClassName 25:priority:int! 29:runtimeClassName 30:enableServiceLinks:bool! 31:preemptionPolicy 32:overhead:quantities
PodSecurityContext 2:runAsUser:int! 3:runAsNonRoot:bool! 5:fsGroup:int! 6:runAsGroup:int!
Container 1:name 2:image 3:command:* 4:args:* 5:workingDir 6:ports:ContainerPort* 7:env:EnvVar* 8:resources:ResourceRequirements 13:terminationMessagePath 14:imagePullPolicy 16:stdin:bool 17:stdinOnce:bool 18:tty:bool 20:terminationMessagePolicy 24:restartPolicy
ContainerPort 1:name 2:hostPort:int 3:containerPort:int 4:protocol 5:hostIP
EnvVar 1:name 2:value
ResourceRequirements 1:limits:quantities 2:requests:quantities
Toleration 1:key 2:operator 3:value 4:effect 5:tolerationSeconds:int!
Service 1:metadata:ObjectMeta 2:spec:ServiceSpec 3:status:ignored
ServiceSpec 1:ports:ServicePort* 2:selector:map 3:clusterIP 4:type 5:externalIPs:* 7:sessionAffinity 8:loadBalancerIP 9:loadBalancerSourceRanges:* 10:externalName 11:externalTrafficPolicy 12:healthCheckNodePort:int 13:publishNotReadyAddresses:bool 17:ipFamilyPolicy 18:clusterIPs:* 19:ipFamilies:* 20:allocateLoadBalancerNodePorts:bool! 21:loadBalancerClass 22:internalTrafficPolicy 23:trafficDistribution
ServicePort 1:name 2:protocol 3:port:int 4:targetPort:intstr 5:nodePort:int 6:appProtocol
TokenReview 1:metadata:ObjectMeta 2:spec:TokenReviewSpec 3:status:ignored
TokenReviewSpec 1:token 2:audiences:*
SubjectAccessReview 1:metadata:ObjectMeta 2:spec:SubjectAccessReviewSpec 3:status:ignored
SubjectAccessReviewSpec 1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:NonResourceAttributes 3:user 4:groups:* 5:extra:ignored 6:uid
SelfSubjectAccessReview 1:metadata:ObjectMeta 2:spec:SelfSubjectAccessReviewSpec 3:status:ignored
SelfSubjectAccessReviewSpec 1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:NonResourceAttributes
ResourceAttributes 1:namespace 2:verb 3:group 4:version 5:resource 6:subresource 7:name
NonResourceAttributes 1:path 2:verb
";

type Schema = BTreeMap<&'static str, BTreeMap<u64, SchemaField>>;

/// The fields of a message by their numbers.
pub(super) fn fields_of(message: &str) -> Option<&'static BTreeMap<u64, SchemaField>> {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| MESSAGES.lines().filter_map(read_message).collect());
    schema.get(message)
}

fn read_message(line: &'static str) -> Option<(&'static str, BTreeMap<u64, SchemaField>)> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    Some((name, words.filter_map(read_field).collect()))
}

fn read_field(word: &'static str) -> Option<(u64, SchemaField)> {
    let mut parts = word.split(':');
    let (number, name) = (parts.next()?.parse().ok()?, parts.next()?);
    let kind = parts.next().unwrap_or_default();
    let plain = kind.trim_end_matches(['*', '!']);
    let (is_list, is_kept) = (kind.ends_with('*'), kind.ends_with('!'));
    let kind = match plain {
        "" => FieldType::Text,
        "base64" => FieldType::Base64,
        "int" => FieldType::Int,
        "bool" => FieldType::Bool,
        "time" => FieldType::Time(0),
        "micro" => FieldType::Time(6),
        "intstr" => FieldType::IntOrText,
        "map" => FieldType::Map(Box::new(FieldType::Text)),
        "bytemap" => FieldType::Map(Box::new(FieldType::Base64)),
        "quantities" => FieldType::Map(Box::new(FieldType::Quantity)),
        "ignored" => FieldType::Ignored,
        message => FieldType::Message(message),
    };
    Some((number, SchemaField { name, kind, is_list, is_kept }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_is_named_is_there() {
        let words = MESSAGES.lines().flat_map(|line| line.split_whitespace().skip(1));
        let fields: Vec<SchemaField> = words
            .map(|word| read_field(word).unwrap_or_else(|| panic!("{word} cannot be read")).1)
            .collect();
        for field in fields {
            if let FieldType::Message(name) = field.kind {
                assert!(MESSAGES.contains(&format!("\n{name} ")), "{name}");
            }
        }
    }
}
