-- Times are in milliseconds since 1970, in a simulation of its virtual clock. Views have names in place of numbers.
-- A journal that an earlier version has begun gets what it lacks of this when it is opened to be written.

-- The pods that were tried more than once, that were evicted, or that were bound at their first attempt after a second or longer,
-- each with its history in short; of the last sort the two hundred that waited longest, of those that are written together. All
-- others were tried once: their row in attempts says all of them.
CREATE TABLE IF NOT EXISTS pods (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    -- How often it was tried.
    attempts INTEGER NOT NULL,
    -- When it was first ready to be tried.
    ready_at INTEGER,
    -- When its binding succeeded.
    bound_at INTEGER,
    -- From the one to the other.
    waited INTEGER,
    -- When it was last evicted for another pod.
    evicted_at INTEGER,
    -- Its last attempt.
    last_attempt INTEGER NOT NULL,
    UNIQUE (name, namespace, uid)
);
CREATE INDEX IF NOT EXISTS pods_by_attempts ON pods (attempts) WHERE attempts > 1;
CREATE INDEX IF NOT EXISTS pods_by_waited ON pods (waited) WHERE attempts > 1 OR waited >= 1000;

-- Names of nodes, plugins, profiles and events, and messages: each text once.
CREATE TABLE IF NOT EXISTS texts (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

-- Every attempt to schedule a pod, in the order in which they were made: a later one has a higher id.
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    -- The pod.
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    -- 1 for the first attempt of the pod.
    number INTEGER NOT NULL,
    profile INTEGER NOT NULL REFERENCES texts (id),
    -- scheduled, unschedulable or error.
    result TEXT NOT NULL,
    -- The chosen node.
    node INTEGER REFERENCES texts (id),
    -- Why there is none.
    message INTEGER REFERENCES texts (id),
    -- The node on which preemption makes room.
    nominated INTEGER REFERENCES texts (id),
    -- What moved the pod to where it could be tried.
    woken_by INTEGER REFERENCES texts (id),
    -- When the pod was first ready to be tried.
    ready_at INTEGER,
    -- When it was queued for this attempt.
    queued_at INTEGER NOT NULL,
    -- How many nodes were judged.
    judged INTEGER NOT NULL,
    -- How many of them were feasible, and by how much the chosen one was better; only if the decision knew it.
    feasible INTEGER,
    margin INTEGER
);

-- The attempts by the names of their pods, but for those that came after the highest segment. Each segment has many attempts that
-- follow each other, so that its rows are appended together: it takes much less time than to add each name to an index.
CREATE TABLE IF NOT EXISTS names (
    -- The last attempt of the segment. Some of its attempts may be deleted.
    segment INTEGER NOT NULL,
    -- FNV-1a of the name with 64 bits, its halves combined by exclusive or, modulo 2048.
    bucket INTEGER NOT NULL,
    -- The attempts of all names that have this bucket: a JSON array.
    attempts TEXT NOT NULL,
    PRIMARY KEY (segment, bucket)
) WITHOUT ROWID;

-- How binding cycles ended. That of an attempt that found a node and has no row here has not ended yet.
CREATE TABLE IF NOT EXISTS bindings (
    attempt INTEGER PRIMARY KEY REFERENCES attempts (id),
    answered_at INTEGER NOT NULL,
    -- Why the pod was not bound.
    error INTEGER REFERENCES texts (id)
);

-- The plugins that rejected a pod that got no node, for which reason, and how many nodes.
CREATE TABLE IF NOT EXISTS rejections (
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    plugin INTEGER NOT NULL REFERENCES texts (id),
    reason INTEGER REFERENCES texts (id),
    nodes INTEGER
);
CREATE INDEX IF NOT EXISTS rejections_by_attempt ON rejections (attempt);

-- The best nodes of an attempt, best first; only with the scores of all nodes.
CREATE TABLE IF NOT EXISTS scores (
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    rank INTEGER NOT NULL,
    node INTEGER NOT NULL REFERENCES texts (id),
    total INTEGER NOT NULL,
    -- A JSON object: by plugin, the normalized score times its weight.
    by_plugin TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS scores_by_attempt ON scores (attempt);

-- The pods that an attempt chose to evict.
CREATE TABLE IF NOT EXISTS victims (
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    pod TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS victims_by_attempt ON victims (attempt);
CREATE INDEX IF NOT EXISTS victims_by_pod ON victims (pod);

-- Every attempt to schedule a group of pods as a whole, in the order in which they were made. Its members are in attempts, too.
CREATE TABLE IF NOT EXISTS group_attempts (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    -- PodGroup or CompositePodGroup.
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- 1 for the first attempt of the group.
    number INTEGER NOT NULL,
    -- scheduled, preempting, unschedulable or error.
    result TEXT NOT NULL,
    -- Why it is not scheduled.
    message INTEGER REFERENCES texts (id),
    -- The placement that was chosen, if it has a name, such as a rack.
    placement INTEGER REFERENCES texts (id),
    -- How many members were tried, and how many of them have a node now.
    pods INTEGER NOT NULL,
    scheduled INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS group_attempts_by_name ON group_attempts (name, namespace);

-- The pods that were chosen to be evicted for a group or one of its members.
CREATE TABLE IF NOT EXISTS group_victims (
    attempt INTEGER NOT NULL REFERENCES group_attempts (id),
    pod TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS group_victims_by_attempt ON group_victims (attempt);
CREATE INDEX IF NOT EXISTS group_victims_by_pod ON group_victims (pod);

-- By hour, and by plugin: how many attempts got a node (no plugin), and how many a plugin rejected.
CREATE TABLE IF NOT EXISTS hours (
    hour INTEGER NOT NULL,
    plugin TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (hour, plugin)
) WITHOUT ROWID;

-- How many entries were lost, because they came faster than they could be written.
CREATE TABLE IF NOT EXISTS losses (
    at INTEGER NOT NULL,
    entries INTEGER NOT NULL
);

CREATE VIEW IF NOT EXISTS history AS
SELECT attempts.id, attempts.at, attempts.namespace, attempts.name, attempts.uid, attempts.number, profile.text AS profile,
       attempts.result, node.text AS node, message.text AS message, nominated.text AS nominated,
       woken_by.text AS woken_by, attempts.ready_at, attempts.queued_at, attempts.judged, attempts.feasible, attempts.margin,
       bindings.answered_at, error.text AS error
FROM attempts
JOIN texts AS profile ON profile.id = attempts.profile
LEFT JOIN texts AS node ON node.id = attempts.node
LEFT JOIN texts AS message ON message.id = attempts.message
LEFT JOIN texts AS nominated ON nominated.id = attempts.nominated
LEFT JOIN texts AS woken_by ON woken_by.id = attempts.woken_by
LEFT JOIN bindings ON bindings.attempt = attempts.id
LEFT JOIN texts AS error ON error.id = bindings.error;

CREATE VIEW IF NOT EXISTS preemptions AS
SELECT attempts.at, victims.pod AS victim, attempts.namespace || '/' || attempts.name AS preemptor, node.text AS node,
       attempts.id AS attempt
FROM victims
JOIN attempts ON attempts.id = victims.attempt
LEFT JOIN texts AS node ON node.id = attempts.nominated;
