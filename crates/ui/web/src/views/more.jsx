// The views of which there is less to see: groups, devices, the journal and the configuration.
import { useState } from "preact/hooks";
import { query, useAnswer } from "../api.js";
import { link, number, plural, podLink, span, time, visible } from "../format.js";
import { Failure, List, Loading, Panel, Remedies, Some, State, Text } from "../parts.jsx";

export function Groups({ version }) {
  const { data, error } = useAnswer("groups", version);
  if (!data) return error ? <Failure error={error} /> : <Loading />;
  return (
    <>
      <h1>{plural(data.groups.length, "group")} of pods</h1>
      <Failure error={error} />
      {data.composites && <Composites of={data.composites} />}
      <ul class="cards">
        {data.groups.map((group) => (
          <li class="panel" key={group.group}>
            <h2>
              <Text of={group.group} />
            </h2>
            <p class="details">
              {group.exists ? "" : "There is no such PodGroup. "}
              {number(group.placed)} on nodes, {number(group.pending)} pending
              {group.minCount !== undefined && `, at least ${number(group.minCount)} together`}
              {group.topology && <>, in one <Text of={group.topology} /></>}
              {group.priority !== 0 && `, priority ${number(group.priority)}`}
              {group.parent && <>, part of <Text of={group.parent} /></>}
            </p>
            {(group.message || group.reason) && (
              <p class="message">
                <Text of={group.message || group.reason} />
              </p>
            )}
            <ul class="plain">
              <Some of={group.pods} first={8}>
                {({ pod, state, node }) => (
                  <li key={pod}>
                    <a href={podLink(pod)}>
                      <Text of={pod} />
                    </a>{" "}
                    {node ? <Text of={node} /> : <State of={state} />}
                  </li>
                )}
              </Some>
            </ul>
            {group.pending > 0 && <WhyGroup group={group.group} />}
          </li>
        ))}
      </ul>
    </>
  );
}

// What a decision about a group says now, in the words of /api/v1/why-group.
const TELLS = {
  running: "All its pods are on nodes.",
  scheduled: "It fits.",
  preempting: "It waits for pods that are being evicted for it.",
  unschedulable: "It does not fit.",
  error: "It could not be decided.",
  waiting: "Pods or objects are missing, or a pod is held back.",
};

// What would let a group fit. To find it takes long on a large cluster, so it is asked only if somebody wants it.
function WhyGroup({ group }) {
  const [asked, setAsked] = useState(0);
  const { data, error } = useAnswer(asked ? query("why-group", { group }) : null, asked);
  return (
    <>
      <button type="button" onClick={() => setAsked((n) => n + 1)}>
        What would let it fit?
      </button>
      {asked > 0 && !data && !error && <Loading />}
      <Failure error={error} />
      {data && <GroupAnswer of={data} />}
    </>
  );
}

function GroupAnswer({ of: { state, message, remedies = [], unknownManifests = [], canary } }) {
  return (
    <div class="why-group">
      <p>
        {TELLS[state] ?? visible(state)}
        {canary && <> The profile <Text of={canary.profile} /> decides it, by <Text of={canary.rule} />.</>}
      </p>
      {message && (
        <p class="message">
          <Text of={message} />
        </p>
      )}
      {remedies.length > 0 && <Remedies of={remedies} />}
      {remedies.length === 0 && state !== "scheduled" && state !== "running" && <p class="nothing">No change that would help was found.</p>}
      {unknownManifests.length > 0 && <p class="details">No change was tried of {plural(unknownManifests.length, "object")} whose manifests could not be read.</p>}
    </div>
  );
}

// Groups of groups, each with what is part of it.
function Composites({ of }) {
  return (
    <>
      <h2>{plural(of.length, "group")} of groups</h2>
      <ul class="cards composites">
        {of.map((group) => (
          <li class="panel" key={group.group}>
            <h3>
              <Text of={group.group} />
            </h3>
            <p class="details">
              {group.exists ? "" : "There is no such CompositePodGroup. "}
              {number(group.placed)} pods on nodes, {number(group.pending)} pending
              {group.minGroupCount !== undefined && `, at least ${plural(group.minGroupCount, "group")} together`}
              {group.topology && <>, in one <Text of={group.topology} /></>}
              {group.priority !== 0 && `, priority ${number(group.priority)}`}
              {group.parent && <>, part of <Text of={group.parent} /></>}
            </p>
            <ul class="plain">
              <Some of={[...(group.composites ?? []), ...(group.groups ?? [])]} first={8}>
                {(name) => (
                  <li key={name}>
                    <Text of={name} />
                  </li>
                )}
              </Some>
            </ul>
          </li>
        ))}
      </ul>
    </>
  );
}

export function Devices({ version }) {
  const { data, error } = useAnswer("devices", version);
  const [search, setSearch] = useState("");
  if (!data) return error ? <Failure error={error} /> : <Loading />;
  const found = data.devices.filter(({ driver, pool, device, node }) => [driver, pool, device, node].some((text) => text?.includes(search)));
  const used = data.devices.filter(({ claims }) => claims > 0).length;
  return (
    <>
      <h1>{plural(data.devices.length, "device")}</h1>
      <p class="as-of">
        {number(used)} in use, {plural(data.claims.length, "claim")}, {number(data.claims.filter((claim) => claim.isAllocated).length)} of them allocated.
      </p>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Device
          <input type="search" value={search} placeholder="part of a name" onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
      </form>
      <Failure error={error} />
      {found.length > 0 && (
        <List
          count={found.length}
          height={36}
          label="Devices"
          href={(at) => (found[at].node ? link("node", found[at].node) : null)}
          head={
            <div class="row head devices-row">
              <span>Device</span>
              <span class="wide-only">Pool</span>
              <span>Node</span>
              <span>Claimed by</span>
            </div>
          }
          row={(at) => {
            const { driver, pool, device, node, claims, claimedBy = [] } = found[at];
            return (
              <span class="cells devices-row">
                <span class="cell name">
                  <Text of={device} /> <span class="details"><Text of={driver} /></span>
                </span>
                <span class="cell wide-only">
                  <Text of={pool} />
                </span>
                <span class="cell">{node ? <Text of={node} /> : "several"}</span>
                <span class="cell">{claims === 0 ? "free" : claimedBy.length ? <Text of={claimedBy.join(", ")} /> : plural(claims, "claim")}</span>
              </span>
            );
          }}
        />
      )}
    </>
  );
}

export function Journal({ version }) {
  const { data, error } = useAnswer("journal", version);
  if (!data) return error ? <Failure error={error} /> : <Loading />;
  const list = (title, pods, say) => (
    <Panel title={title}>
      {pods.length === 0 && <p class="nothing">None.</p>}
      <ol class="plain">
        <Some of={pods}>
          {(one) => (
            <li key={one.pod}>
              <a href={podLink(one.pod)}>
                <Text of={one.pod} />
              </a>{" "}
              <span class="details">{say(one)}</span>
            </li>
          )}
        </Some>
      </ol>
    </Panel>
  );
  return (
    <>
      <h1>Journal</h1>
      {data.lost > 0 && <p class="failure">{plural(data.lost, "entry", "entries")} came faster than they could be written, and are missing.</p>}
      <div class="panels">
        {list("Pods that waited longest", data.slowest, ({ waited, attempts }) => `${span(waited)}, ${plural(attempts, "attempt")}`)}
        {list("Pods that were tried most often", data.mostRetried, ({ attempts, waited }) => `${plural(attempts, "attempt")}${waited === undefined ? "" : `, ${span(waited)}`}`)}
        <Panel title="Preemptions" wide>
          {data.preemptions.length === 0 && <p class="nothing">None.</p>}
          <ul class="plain">
            <Some of={data.preemptions}>
              {({ at, victim, preemptor, node }) => (
                <li key={`${at}${victim}`}>
                  <time>{time(at)}</time>{" "}
                  <a href={podLink(victim)}>
                    <Text of={victim} />
                  </a>{" "}
                  was evicted for{" "}
                  <a href={podLink(preemptor)}>
                    <Text of={preemptor} />
                  </a>
                  {node && <> on <Text of={node} /></>}
                </li>
              )}
            </Some>
          </ul>
        </Panel>
      </div>
    </>
  );
}

const written = (value) => (value === undefined ? "–" : visible(typeof value === "string" ? value : JSON.stringify(value)));

export function Configuration({ version }) {
  const { data, error } = useAnswer("config", version);
  if (!data) return error ? <Failure error={error} /> : <Loading />;
  return (
    <>
      <h1>Configuration</h1>
      <Failure error={error} />
      <div class="panels">
        <Panel title={data.differences.length ? `${plural(data.differences.length, "field")} with another value than by default` : "It is the default one"} wide>
          {data.differences.length > 0 && (
            <div class="scroll">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Field</th>
                    <th scope="col">Value</th>
                    <th scope="col">Default</th>
                  </tr>
                </thead>
                <tbody>
                  {data.differences.map(({ field, value, default: byDefault }) => (
                    <tr key={field}>
                      <th scope="row">
                        <Text of={field} />
                      </th>
                      <td>
                        <code class="text">{written(value)}</code>
                      </td>
                      <td>
                        <code class="text">{written(byDefault)}</code>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Panel>
        <Panel title="In effect" wide>
          <pre class="json">{visible(JSON.stringify(data.configuration, null, 2))}</pre>
        </Panel>
      </div>
    </>
  );
}
